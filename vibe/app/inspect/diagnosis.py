"""Diagnosis of the things on this machine that runs depend on, without the network."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from urllib.parse import urlsplit

from vibe import __version__
from vibe.app.engine.host import Host
from vibe.core.config.loader import ConfigRequest, LoadedConfig, load_config
from vibe.core.config.models import BackendKind, SandboxMode, VibeConfig
from vibe.core.config.paths import CONFIG_FILE, VibePaths, find_project_dir, user_home_of
from vibe.core.errors import VibeError
from vibe.core.sandbox.choose import choose_sandbox
from vibe.core.tools.files.search import find_ripgrep
from vibe.core.tools.redaction import redact

PROGRAM_SECONDS = 5
CONNECT_SECONDS = 5
HTTPS_PORT, HTTP_PORT = 443, 80


class CheckState(StrEnum):
    """The state of a thing: fine, worse than it could be, or such that runs fail."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was checked."""

    subject: str
    state: CheckState
    detail: str


def diagnose(host: Host, workdir: Path, *, trust: bool = False, online: bool = False) -> tuple[Finding, ...]:
    """Check everything; with ``online``, try to reach the model's server too. Blocks."""
    return tuple(_findings(host, workdir, trust=trust, online=online))


def _findings(host: Host, workdir: Path, *, trust: bool, online: bool) -> Iterator[Finding]:
    yield _ok("version", f"vibe {__version__}, Python {platform.python_version()}, {platform.system()}")
    yield _home(host.home)
    loaded: LoadedConfig | None = None
    try:
        loaded = load_config(ConfigRequest(home=host.home, workdir=workdir, environ=host.environ, trust_workdir=trust))
    except VibeError as error:
        yield Finding(subject="config", state=CheckState.FAILED, detail=str(error))
    else:
        yield _ok("config", _config_files(host, workdir, loaded))
        for warning in loaded.warnings:
            yield Finding(subject="config", state=CheckState.WARNING, detail=redact(warning, loaded.environ))
        for note in loaded.foreign:
            yield _ok("config", redact(note, loaded.environ))
        yield from _model(loaded.config, loaded.environ, online=online)
    yield _sandbox(SandboxMode.AUTO if loaded is None else loaded.config.sandbox.mode)
    yield _ripgrep()
    yield _program("git", "runs leave no snapshots to go back to, and plans no worktrees")
    yield _package("pynng", "the bus", "no other process can follow a run")


def _ok(subject: str, detail: str) -> Finding:
    return Finding(subject=subject, state=CheckState.OK, detail=detail)


def _home(home: Path) -> Finding:
    existing = next(folder for folder in (home, *home.parents) if folder.exists())
    probe = existing / ".vibe-probe"
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        detail = f"{home} can't be written ({error.strerror}): set VIBE_HOME to a folder that can"
        return Finding(subject="home", state=CheckState.FAILED, detail=detail)
    return _ok("home", f"{home}{'' if home.exists() else ' (made when something is kept there)'}")


def _config_files(host: Host, workdir: Path, loaded: LoadedConfig) -> str:
    own = VibePaths(host.home).config_file
    project = find_project_dir(workdir, home=host.home, user_home=user_home_of(loaded.environ))
    described = [f"{own}{'' if own.is_file() else ' (none)'}"]
    if project is not None and (project / CONFIG_FILE).is_file():
        described.append(f"{project / CONFIG_FILE}{'' if loaded.project_dir else ' (not trusted, not loaded)'}")
    changed = sum(origin != "default" for origin in loaded.origins.values())
    return f"{', '.join(described)}; {changed} settings differ from the defaults"


def _model(config: VibeConfig, environ: Mapping[str, str], *, online: bool) -> Iterator[Finding]:
    model = config.find_model(config.active_model)
    provider = config.find_provider(model.provider) if model else None
    if model is None or provider is None:
        missing = "model" if model is None else "provider"
        detail = f"active_model {config.active_model!r}: there is no such {missing}"
        yield Finding(subject="model", state=CheckState.FAILED, detail=detail)
        return
    yield _ok("model", f"{model.key} at {provider.name} ({provider.backend.value})")
    wanted = provider.api_key_env_var
    known = dict.fromkeys(entry.api_key_env_var for entry in config.providers if entry.api_key_env_var)
    present = [name for name in known if environ.get(name)]
    if wanted and wanted not in present:
        detail = f"{wanted} is not set: set it, or choose another model"
        yield Finding(subject="keys", state=CheckState.FAILED, detail=detail)
    else:
        yield _ok("keys", f"set: {', '.join(present)}" if present else "no API key needed")
    if online and provider.backend is not BackendKind.SCRIPTED:
        yield _reachable(provider.api_base)


def _reachable(address: str) -> Finding:
    """Return whether a connection to the server's address can be opened; nothing is sent."""
    import socket  # noqa: PLC0415  only on request

    parts = urlsplit(address)
    port = parts.port or (HTTP_PORT if parts.scheme == "http" else HTTPS_PORT)
    try:
        socket.create_connection((parts.hostname or "", port), CONNECT_SECONDS).close()
    except OSError as error:
        detail = f"{parts.hostname}:{port} can't be reached: {error.strerror or error}"
        return Finding(subject="network", state=CheckState.FAILED, detail=detail)
    return _ok("network", f"{parts.hostname}:{port} can be reached")


def _sandbox(mode: SandboxMode) -> Finding:
    try:
        choice = choose_sandbox(mode)
    except VibeError as error:
        return Finding(subject="sandbox", state=CheckState.FAILED, detail=str(error))
    if choice.sandbox is None:
        state = CheckState.OK if mode is SandboxMode.OFF else CheckState.WARNING
        return Finding(subject="sandbox", state=state, detail=f"none ({choice.reason}): commands run unconfined")
    limits = f", but {choice.sandbox.limits}" if choice.sandbox.limits else ""
    return _ok("sandbox", f"{choice.reason} (mode {mode.value}){limits}")


def _ripgrep() -> Finding:
    found = find_ripgrep(None)
    if found is None:
        return Finding(subject="ripgrep", state=CheckState.WARNING, detail="not found: searching is slower without it")
    return _ok("ripgrep", f"{found} ({_first_line([found, '--version'])})")


def _program(name: str, without: str) -> Finding:
    found = shutil.which(name)
    if found is None:
        return Finding(subject=name, state=CheckState.WARNING, detail=f"not found: {without}")
    return _ok(name, f"{found} ({_first_line([found, '--version'])})")


def _package(name: str, what: str, without: str) -> Finding:
    try:
        __import__(name)
        return _ok(name, f"{what}, {metadata.version(name)}")
    except (ImportError, OSError, metadata.PackageNotFoundError) as error:
        return Finding(subject=name, state=CheckState.FAILED, detail=f"{what} can't be loaded ({error}): {without}")


def _first_line(argv: list[str]) -> str:
    try:
        ended = subprocess.run(  # noqa: S603  a program of the PATH, asked for its version
            argv, capture_output=True, timeout=PROGRAM_SECONDS, check=False, text=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return (ended.stdout.splitlines() or ["no version"])[0]
