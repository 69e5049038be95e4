"""Loads the configuration from its layers and validates it.

In order of precedence: flags, the chosen agent, environment variables, the project's file, the user's file, defaults.
Providers' keys come from the environment, the user's ``.env`` or the keyring, in this order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from msgspec import Struct, field, structs
from pydantic_core import to_jsonable_python

from vibe.core.config.dotenv import EnvFile, read_env_file
from vibe.core.config.foreign_keys import foreign_summary
from vibe.core.config.layers import (
    DEFAULT_ORIGIN,
    Layer,
    Setting,
    default_layer,
    drop_invalid_ui,
    layer_of,
    merge,
    read_layer,
    validate,
)
from vibe.core.config.models import BackendKind, VibeConfig
from vibe.core.config.paths import (
    CONFIG_FILE,
    VibePaths,
    absolute,
    find_project_dir,
    nested_folders,
    project_lineage,
    shown,
)
from vibe.core.config.schema import Key, known_key, leaves, parse_word, type_of, written
from vibe.core.config.toml_source import TomlSource, read_toml
from vibe.core.config.trust import TrustStore, trusting
from vibe.system.errors import UsageError, closest, did_you_mean, explained_by
from vibe.system.own_places import user_home_of
from vibe.system.programs import guarded

VARIABLE_PREFIX = "VIBE_"
NOT_SETTINGS = frozenset({
    "VIBE_BUS_TOKEN",
    "VIBE_HOME",
    "VIBE_LOG_LEVEL",
    "VIBE_LOG_MAX_BYTES",
    "VIBE_DEPTH",
    "VIBE_WRITERS",
    "VIBE_MCP_TOKEN",
})
"""Environment variables of ours that are not settings."""
FLAG_NAMES = MappingProxyType({
    "active_model": "--model",
    "auto_approve": "--auto-approve",
    "denied_tools": "--disabled-tools",
    "enabled_tools": "--enabled-tools",
    "instructions": "--instructions",
    "ipc.address": "--bus",
    "mcp_servers": "--mcp",
    "planner.max_parallel_steps": "--max-parallel",
    "sandbox.network": "--network",
})
"""The flag that sets a key. For any other key it is ``--`` and the key itself."""
ADDED = frozenset({"approved", "denied_tools", "denylist", "denylist_standalone"})
"""The lists of what is approved or refused for good; those of a project or an agent are added to the others."""
FIRM = (("tools", "permission", "never"), ("sandbox", "mode", "required"))
"""The first and last parts of keys, with the values of the user's own settings that no project's replace."""
SERVERS = "mcp_servers"
INSTRUCTIONS, DENIED, MCP = FLAG_NAMES["instructions"], FLAG_NAMES["denied_tools"], FLAG_NAMES[SERVERS]


class GivenSettings(Struct, frozen=True, kw_only=True):
    """Settings for one run, given by whoever starts it.

    ``values``, by dotted key, override files, variables and the agent. The other fields add to what those say; a
    server never replaces a configured one. ``named`` is how error messages name the source of a value, before its key.
    """

    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    instructions: str = ""
    disabled_tools: tuple[str, ...] = ()
    servers: tuple[Mapping[str, Any], ...] = ()
    named: str = "--set"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the flags and keys that are given, without their values."""
        others = {INSTRUCTIONS: self.instructions, DENIED: self.disabled_tools, MCP: self.servers}
        return (*(f"{self.named} {key}" for key in self.values), *(name for name, value in others.items() if value))


NOTHING_GIVEN = GivenSettings()


class ConfigRequest(Struct, frozen=True, kw_only=True):
    """The places to load settings from. ``home`` and ``workdir`` are absolute.

    ``flags`` is keyed by dotted key; None means that a flag was not given. ``trust_workdir`` loads the project's
    ``.vibe`` this once, whatever the list of trusted folders says. ``drafts`` maps settings files to files that are
    read in their place, to check whether those would be valid. ``agent`` is the file of the chosen agent, reduced to
    its settings.
    """

    home: Path
    workdir: Path
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    flags: Mapping[str, Any] = field(default_factory=dict[str, Any])
    given: GivenSettings | None = None
    trust_workdir: bool = False
    drafts: Mapping[Path, Path] = field(default_factory=dict[Path, Path])
    agent: TomlSource | None = None


class LoadedConfig(ConfigRequest, frozen=True, kw_only=True):
    """The configuration loaded for a ``ConfigRequest``, and where each setting came from.

    ``foreign`` has a sentence on each setting of Mistral Vibe, which has no effect here; one of the ``warnings``
    counts them. ``origins`` maps each dotted key to ``file:line``, a variable, a flag, or ``default``. ``project_dir``
    is the trusted ``.vibe`` folder. ``environ`` is the given environment with the additions of the user's ``.env``;
    ``from_keyring`` names the keys in it that came from the keyring.
    """

    config: VibeConfig
    origins: Mapping[str, str] = field(default_factory=dict[str, str])
    warnings: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()
    project_dir: Path | None = None
    from_keyring: frozenset[str] = frozenset()

    @property
    def user_home(self) -> Path:
        """The user's home directory."""
        return user_home_of(self.environ)

    @property
    def own_folders(self) -> list[Path]:
        """The folders with settings, agents and tools: the project's, if it is trusted, and the user's."""
        return [self.home] if self.project_dir is None else [self.project_dir, self.home]

    @property
    def lineage(self) -> list[Path]:
        """The project's folders from the workspace up, nearest first."""
        return project_lineage(self.workdir, self.user_home)

    @property
    def trusts(self) -> Callable[[Path], bool]:
        """A function that checks whether a resolved folder is trusted."""
        return trusting(self.home, self.workdir, self.user_home, trust_workdir=self.trust_workdir)

    def explaining(self) -> AbstractContextManager[None]:
        """Note the warnings at an error in the block: what has no effect may be the reason for it."""
        return explained_by(self.warnings)

    def nested_projects(self) -> tuple[Path, ...]:
        """Return the folders below a trusted workspace that have a ``.vibe`` or ``.agents``; reads the file system.

        There are none in the user's home directory, which is not a project.
        """
        return tuple(nested_folders(self.workdir, self.trusts)) if self.lineage else ()


def load_config(request: ConfigRequest) -> LoadedConfig:
    """Load and validate the configuration; writes nothing.

    A wrong value in ``[ui]`` is only a warning, except in drafts.

    Raises:
        UsageError: an unknown setting is given.
        ConfigError: a file cannot be read or is not TOML.
        InvalidConfigError: settings are wrong; the error lists all of them.
    """
    paths, user_home = VibePaths(request.home), user_home_of(request.environ)
    env_file = read_env_file(paths.env_file, shown(paths.env_file, user_home))
    environ = {**env_file.values, **request.environ}
    project_dir, untrusted = _project(request, user_home)
    files = [paths.config_file] if project_dir is None else [paths.config_file, project_dir / CONFIG_FILE]
    given = request.given or NOTHING_GIVEN
    servers = read_layer({SERVERS: [*given.servers]}, lambda _: MCP, base=request.workdir, user_home=user_home)
    sources = (read_toml(request.drafts.get(file, file), shown(file, user_home)) for file in files)
    own, *of_project = (layer_of(source, user_home) for source in sources)
    layers = [
        default_layer(),
        servers,
        own,
        *(_within(own, layer) for layer in of_project),
        *_variable_layers(request, environ, env_file, user_home),
    ]
    if (agent := request.agent) is not None:
        is_own = agent.folder.is_relative_to(request.home)
        layers.append(_within(merge(layers), layer_of(agent, user_home), is_own=is_own))
    merged = merge([*layers, *_given_layers(given, request.workdir, user_home), *_flag_layers(request, user_home)])
    _add_given(given, merged)
    ui_warnings = () if request.drafts else drop_invalid_ui(merged)
    config = validate(merged)
    writable = (Path(absolute(place, request.workdir, user_home)) for place in config.sandbox.writable)
    guarding = (request.workdir, *writable)
    return LoadedConfig(
        **structs.asdict(structs.replace(request, environ=MappingProxyType(guarded(environ, guarding)))),
        config=config,
        origins=MappingProxyType(_origins(merged)),
        warnings=(
            *env_file.warnings,
            *([untrusted] if untrusted else []),
            *merged.warnings,
            *(
                f"{MCP}: server {key[1]} is not used: one of that name is configured"
                for key in servers.entries
                if merged.entries[key] != MCP
            ),
            *ui_warnings,
            *([foreign_summary(len(merged.foreign))] if merged.foreign else []),
        ),
        foreign=tuple(merged.foreign),
        project_dir=project_dir,
    )


def _project(request: ConfigRequest, user_home: Path) -> tuple[Path | None, str | None]:
    """Return the project's ``.vibe`` folder if it may be loaded, and a sentence on what is not loaded, if anything."""
    project = find_project_dir(request.workdir, home=request.home, user_home=user_home)
    if request.trust_workdir:
        return project, None
    store = TrustStore(request.home, user_home=user_home)
    trusted = project if project is not None and store.is_trusted(project.parent) else None
    return trusted, store.untrusted_reason(request.workdir)


def _within(own: Layer, layer: Layer, *, is_own: bool = False) -> Layer:
    """Drop what only the user's ``own`` settings may decide from a project's or its agent's; lists in ``ADDED`` grow.

    ``is_own`` says that the layer is of the user's own agent, which may decide everything but must not shorten a list.
    """
    for key, setting in tuple(layer.settings.items()):
        mine, why = own.settings.get(key), ""
        is_backend = key[0] == "providers" and key[-1] == "backend" and setting.value not in frozenset(BackendKind)
        if not is_own and (is_backend or (key == ("ipc", "listeners") and setting.value)):
            why = f"a project names no installed packages; set it in your own {CONFIG_FILE} if it is meant"
        elif not is_own and mine and (key[0], key[-1], mine.value) in FIRM and setting.value != mine.value:
            why = f"{mine.origin} says {mine.value!r}"
        elif mine and key[-1] in ADDED and all(isinstance(one.value, list) for one in (mine, setting)):
            layer.settings[key] = Setting(mine.value + setting.value, f"{mine.origin}, {setting.origin}")
        if why:
            del layer.settings[key]
            layer.warnings.append(f"{setting.origin}: {written(key)} has no effect: {why}")
    return layer


def _variable_layers(
    request: ConfigRequest, environ: Mapping[str, str], env_file: EnvFile, user_home: Path
) -> Iterator[Layer]:
    """Yield a layer for each variable, so that ``VIBE_PLANNER__...`` can refine ``VIBE_PLANNER``."""
    label = shown(VibePaths(request.home).env_file, user_home)
    for name in sorted(environ):
        if not name.startswith(VARIABLE_PREFIX) or name in NOT_SETTINGS or not environ[name]:
            continue
        origin = name if name in request.environ else f"{name} ({label}:{env_file.lines[name]})"
        key = tuple(name.removeprefix(VARIABLE_PREFIX).lower().split("__"))
        yield _single(key, parse_word(environ[name], type_of(key)), origin, request.workdir, user_home)


def _flag_layers(request: ConfigRequest, user_home: Path) -> Iterator[Layer]:
    for name, given in request.flags.items():
        if given is None:
            continue
        key = tuple(name.split("."))
        value = parse_word(given, type_of(key)) if isinstance(given, str) else to_jsonable_python(given)
        yield _single(key, value, FLAG_NAMES.get(name, f"--{name}"), request.workdir, user_home)


def _given_layers(given: GivenSettings, workdir: Path, user_home: Path) -> Iterator[Layer]:
    for name, value in given.values.items():
        key, origin = known_key(name, given.named), given.named
        try:
            data = to_jsonable_python(value)
        except ValueError as error:
            raise UsageError(f"{origin} {name}: {type(value).__name__} can't be the value of a setting") from error
        layer = _single(key, data, origin, workdir, user_home)
        if len(key) > 1 and key[1].startswith("["):  # it changes one field of a configured entry, and nothing else
            layer = Layer(settings={key: layer.settings.get(key, Setting(data, origin))})
        yield layer


def _add_given(given: GivenSettings, merged: Layer) -> None:
    """Append the given instructions and disabled tools to the configured ones.

    Raises:
        UsageError: a value is for an entry that does not exist.
    """
    for name in given.values:
        key = known_key(name, given.named)
        if len(key) > 1 and key[1].startswith("[") and key[:2] not in merged.entries:
            known = [entry[1].strip("[]") for entry in merged.entries if entry[0] == key[0]]
            hint = did_you_mean(closest(key[1].strip("[]"), known), f"there are: {', '.join(known)}")
            raise UsageError(f"{given.named} {name}: no such entry of {key[0]}; {hint}")
    if given.instructions:
        before = merged.settings.get(("instructions",))
        text = f"{before.value}\n\n{given.instructions}" if before and before.value else given.instructions
        merged.settings["instructions",] = Setting(text, INSTRUCTIONS)
    if given.disabled_tools:
        before = merged.settings.get(("denied_tools",))
        value: object = before.value if before else []
        if isinstance(value, list):  # anything else is reported by the validation
            patterns = [*cast("list[str]", value), *given.disabled_tools]
            merged.settings["denied_tools",] = Setting(patterns, f"{before.origin}, {DENIED}" if before else DENIED)


def _single(key: Key, value: Any, origin: str, base: Path, user_home: Path) -> Layer:
    """Read one setting as a layer, nested as a file would nest it."""
    for name in reversed(key[1:]):
        value = [{"name": name[1:-1], **value}] if name.startswith("[") else {name: value}
    return read_layer({key[0]: value}, lambda _: origin, base=base, user_home=user_home)


def _origins(merged: Layer) -> dict[str, str]:
    set_somewhere = {written(key): setting.origin for key, setting in merged.settings.items()}
    return {written(key): DEFAULT_ORIGIN for key in leaves()} | set_somewhere


ENVIRONMENT = "the environment"
KEYRING = "the keyring"
SERVICE = "vibe-orchestrator"
"""The service under which the keyring holds our keys, each named by its variable."""


def key_place(variable: str, loaded: LoadedConfig, given: Mapping[str, str], env_file: str) -> str:
    """Return where a variable's key is stored, or an empty string if nowhere; the keyring itself is not read.

    ``given`` is the environment, ``env_file`` the displayed name of the user's ``.env`` file.
    """
    if given.get(variable, "").strip():
        return ENVIRONMENT
    if loaded.environ.get(variable, "").strip():
        return KEYRING if variable in loaded.from_keyring else env_file
    return KEYRING if variable in loaded.config.keys_in_keyring else ""


def with_keyring(loaded: LoadedConfig) -> LoadedConfig:
    """Return the configuration with the keys of ``keys_in_keyring`` that are found nowhere but in the keyring; blocks.

    An unusable keyring is a warning. If no key is missing, the keyring's library is not even imported.
    """
    missing = [name for name in loaded.config.keys_in_keyring if not loaded.environ.get(name, "").strip()]
    if not missing:
        return loaded
    from vibe.system.keyring import KeyringError, read_secret  # noqa: PLC0415  not needed if no key is missing

    found: dict[str, str] = {}
    warnings: list[str] = []
    for name in missing:
        try:
            key = read_secret(SERVICE, name)
        except KeyringError as error:
            warnings.append(f"{name} is missing: {error}; unlock it, or set {name} in the environment")
            break  # don't wait again for a keyring that is missing or does not answer
        if key is None:
            warnings.append(f"{name} is missing: it is no longer in {KEYRING}; store it again with `vibe setup`")
        else:
            found[name] = key
    return structs.replace(
        loaded,
        environ=MappingProxyType({**loaded.environ, **found}),
        from_keyring=frozenset(found),
        warnings=(*loaded.warnings, *warnings),
    )
