"""Diagnosis of the things that runs depend on, on this machine and, on request, at the model's server."""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from email.utils import parsedate_to_datetime
from enum import StrEnum
from functools import partial
from importlib import metadata
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import anyio
from msgspec import Struct

from ipc.bus import EventBus, event_bus
from ipc.errors import IpcError
from ipc.events import WarningEvent
from ipc.registry import RunInfo
from ipc.sink import StampingSink
from ipc.subscriber import subscribe
from vibe import __version__
from vibe.app.engine.host import Host
from vibe.app.engine.settings import Settings
from vibe.app.inspect.trial import ask_once
from vibe.core.config.loader import LoadedConfig, key_place, with_keyring
from vibe.core.config.models import BackendKind, ModelConfig, ProviderConfig, VibeConfig
from vibe.core.llm.backend.local_server import problem_with
from vibe.core.llm.error_table import ErrorMapper
from vibe.core.llm.factory import ModelCatalog
from vibe.shell.sandbox.choose import SandboxMode, choose_sandbox
from vibe.system.errors import VibeError
from vibe.system.http import answer_to
from vibe.system.programs import find_program, find_ripgrep, guarded, shunned
from vibe.system.redaction import redact

PROGRAM_SECONDS = 5
APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
UNRESTRICT = (
    "install the package apparmor-profiles, copy bwrap-userns-restrict from /usr/share/apparmor/extra-profiles to "
    "/etc/apparmor.d, and reload AppArmor"
)
CONNECT_SECONDS = 5
CLOCK_SECONDS = 60
BUS_SECONDS = 10


class CheckState(StrEnum):
    """The state of a thing: fine, worse than it could be, or such that runs fail."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


class Finding(Struct, frozen=True):
    """The result of checking one thing."""

    subject: str
    state: CheckState
    detail: str


def diagnose(host: Host, workdir: Path, *, trust: bool, online: bool) -> Iterator[Finding]:
    """Check everything; with ``online``, also ask the model a question. Blocks, and runs an event loop."""
    yield _ok("version", f"vibe {__version__}, Python {platform.python_version()}, {platform.system()}")
    yield _home(host.home)
    loaded: LoadedConfig | None = None
    settings = Settings(host, workdir, trust=trust)
    try:
        loaded = with_keyring(settings.load())
    except VibeError as error:
        yield Finding("config", CheckState.FAILED, str(error))
    else:
        yield _ok("config", _config_files(settings, loaded))
        yield from (Finding("config", CheckState.FAILED, str(problem)) for problem in settings.problems())
        for warning in loaded.warnings:
            yield Finding("config", CheckState.WARNING, redact(warning, loaded.environ))
        for note in loaded.foreign:
            yield _ok("config", redact(note, loaded.environ))
        yield from _model(host, loaded, online=online)
    own = guarded(host.environ, [workdir]) if loaded is None else loaded.environ
    yield _sandbox(SandboxMode.AUTO if loaded is None else loaded.config.sandbox.mode, own)
    yield _program("ripgrep", find_ripgrep(own), ": search is slower without it")
    without = f"{shunned('git', own)}: no snapshots to rewind to, no worktrees for plans"
    yield _program("git", find_program("git", own), without)
    yield _bus(host)


def _ok(subject: str, detail: str) -> Finding:
    return Finding(subject, CheckState.OK, detail)


def _home(home: Path) -> Finding:
    existing = next(folder for folder in (home, *home.parents) if os.path.exists(folder))
    probe = existing / ".vibe-probe"
    try:
        probe.touch()
        probe.unlink()
    except OSError as error:
        detail = f"{home} can't be written ({error.strerror}): set VIBE_HOME to a writable folder"
        return Finding("home", CheckState.FAILED, detail)
    return _ok("home", f"{home}{'' if os.path.exists(home) else ' (created when first needed)'}")


def _config_files(settings: Settings, loaded: LoadedConfig) -> str:
    own, project = (settings.path(project=of_project) for of_project in (False, True))
    described = [f"{own}{'' if os.path.isfile(own) else ' (none)'}"]
    if project != own and os.path.isfile(project):
        described.append(f"{project}{'' if loaded.project_dir else ' (not trusted, not loaded)'}")
    changed = sum(origin != "default" for origin in loaded.origins.values())
    return f"{', '.join(described)}; {changed} settings differ from the defaults"


def _model(host: Host, loaded: LoadedConfig, *, online: bool) -> Iterator[Finding]:
    config, environ = loaded.config, loaded.environ
    catalog = ModelCatalog(config, environ)
    model = catalog.resolve(None)
    provider = catalog.provider(model)
    yield _ok("model", f"{model.key} at {provider.name} ({provider.backend})")
    variable = provider.api_key_env_var
    if variable and not environ.get(variable, "").strip():
        detail = f"{variable} is not set: run `vibe setup`, set it, or choose another model"
        yield Finding("keys", CheckState.FAILED, detail)
        return
    yield _ok("keys", _keys(host, loaded) or "no API key needed")
    if provider.backend is BackendKind.LOCAL and (problem := problem_with(config.local)) is not None:
        yield Finding("local model", CheckState.FAILED, problem)
    elif (problem := anyio.run(_settings_fault, catalog, model)) is not None:
        yield Finding("provider", CheckState.FAILED, redact(problem, environ))
    elif online and provider.backend is not BackendKind.SCRIPTED:
        yield from _online(config, model, provider, environ)


async def _settings_fault(catalog: ModelCatalog, model: ModelConfig) -> str | None:
    """Return what is wrong with the settings of the model's provider, without making a call."""
    try:
        catalog.backend(model)
    except VibeError as error:
        return str(error)
    finally:
        await catalog.aclose()
    return None


def _keys(host: Host, loaded: LoadedConfig) -> str:
    """Return which keys of configured providers were found, and where each comes from."""
    label = Settings(host, loaded.workdir).label(host.home / ".env")
    names = dict.fromkeys(provider.api_key_env_var for provider in loaded.config.providers)
    present = [name for name in names if loaded.environ.get(name, "").strip()]
    return ", ".join(f"{name} in {key_place(name, loaded, host.environ, label)}" for name in present)


def _online(
    config: VibeConfig, model: ModelConfig, provider: ProviderConfig, environ: Mapping[str, str]
) -> Iterator[Finding]:
    """Yield findings on the server, its clock compared with ours, and whether the model answers and calls tools.

    This costs one question.
    """
    if provider.is_server:
        reached = list(_reach(provider))
        yield from reached
        if any(finding.state is CheckState.FAILED for finding in reached):
            return
    trial = anyio.run(ask_once, config, environ, model, "")
    state = CheckState.FAILED if trial.fault else CheckState.OK if trial.calls_tools else CheckState.WARNING
    yield Finding("answer", state, redact(trial.sentence, environ))


def _reach(provider: ProviderConfig) -> Iterator[Finding]:
    import httpx2  # noqa: PLC0415  only once a server is asked

    try:
        answered = answer_to("HEAD", provider.api_base, CONNECT_SECONDS)
    except (httpx2.HTTPError, httpx2.InvalidURL, VibeError) as error:  # the proxy's address may be invalid
        told = error if isinstance(error, VibeError) else ErrorMapper(provider=provider).from_wire(error)
        yield Finding("network", CheckState.FAILED, str(told))
        return
    yield _ok("network", f"{urlsplit(provider.api_base).netloc} can be reached")
    with suppress(TypeError, ValueError):  # the date is missing or invalid
        yield _clock(parsedate_to_datetime(answered.headers.get("date", "")).timestamp() - time.time())


def _clock(ahead: float) -> Finding:
    """Judge by how many seconds the server's clock is ahead of this machine's."""
    if abs(ahead) <= CLOCK_SECONDS:
        return _ok("clock", f"within {CLOCK_SECONDS} s of the server's")
    detail = (
        f"{abs(ahead):.0f} s {'behind' if ahead > 0 else 'ahead of'} the server's: certificates and logins fail, set it"
    )
    return Finding("clock", CheckState.WARNING, detail)


def _sandbox(mode: SandboxMode, environ: Mapping[str, str]) -> Finding:
    try:
        choice = choose_sandbox(mode, environ)
    except VibeError as error:
        return Finding("sandbox", CheckState.FAILED, str(error))
    if choice.sandbox is None:
        state = CheckState.OK if mode is SandboxMode.OFF else CheckState.WARNING
        return Finding("sandbox", state, f"none ({choice.reason}): commands run unconfined")
    limits = f", but {choice.sandbox.limits}" if choice.sandbox.limits else ""
    better = f"; not used: {choice.passed_over}{_remedy(choice.passed_over)}" if choice.passed_over else ""
    return _ok("sandbox", f"{choice.reason} (mode {mode.value}){limits}{better}")


def _remedy(problem: str) -> str:
    """Return what lets bubblewrap work if AppArmor keeps it from making namespaces; empty if that isn't the cause."""
    is_restricted = os.path.exists(APPARMOR) and APPARMOR.read_text(encoding="ascii").strip() == "1"
    return f" ({UNRESTRICT})" if is_restricted and "ermission" in problem else ""


def _program(name: str, found: str | None, missing: str) -> Finding:
    if found is None:
        return Finding(name, CheckState.WARNING, f"not found{missing}")
    return _ok(name, f"{found} ({_version_line([found, '--version'])})")


def _bus(host: Host) -> Finding:
    """Send an event over a bus in the usual place, and check that it arrives."""
    try:
        with ExitStack() as places:
            home = host.home if os.path.exists(host.home) else Path(places.enter_context(TemporaryDirectory()))
            anyio.run(_send_and_receive, home, host.runtime_dir)
    except (VibeError, IpcError, OSError, TimeoutError, StopAsyncIteration) as error:
        problem = getattr(error, "strerror", None) or str(error) or "an event was sent but not received"
        return Finding("bus", CheckState.FAILED, f"other processes can't follow runs: {problem}")
    return _ok("bus", f"event sent and received, pynng {metadata.version('pynng')}")


async def _send_and_receive(home: Path, runtime_dir: Path | None) -> None:
    info = RunInfo(cwd=str(home), kept=False)
    with anyio.fail_after(BUS_SECONDS):
        async with event_bus(partial(EventBus, home, source="doctor", info=info, runtime_dir=runtime_dir)) as bus:
            sink = StampingSink("doctor", bus)
            async with subscribe("doctor", home=home, runtime_dir=runtime_dir) as records:
                sink.publish(WarningEvent(code="trial", message="a trial"))
                await anext(records)


def _version_line(argv: list[str]) -> str:
    try:
        ended = subprocess.run(  # noqa: S603  a program of the PATH, asked for its version
            argv, capture_output=True, timeout=PROGRAM_SECONDS, check=False, text=True, errors="replace"
        )
    except (OSError, subprocess.SubprocessError) as error:
        return str(error)
    return (ended.stdout.splitlines() or ["no version"])[0]
