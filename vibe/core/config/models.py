"""What can be configured: one frozen model a table of ``config.toml``.

The string under a field is its line in the reference of the configuration, which is generated from here.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

PositiveInt = Annotated[int, Field(ge=1)]
NonNegativeFloat = Annotated[float, Field(ge=0)]


class Section(BaseModel):
    """A table: immutable, and no unknown keys (the loader reports them before they get here)."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class BackendKind(StrEnum):
    """The protocols a provider can speak."""

    MISTRAL = "mistral"
    GENERIC = "generic"
    SCRIPTED = "scripted"


class ProviderConfig(Section):
    """Where models are served."""

    name: str
    """What models call it; a later layer's provider of the same name replaces the whole entry."""
    backend: BackendKind = BackendKind.GENERIC
    """The protocol it speaks; `generic` is the OpenAI-compatible chat completions API."""
    api_base: str = ""
    """Its address with the version path, such as `https://host/v1`."""
    api_key_env_var: str = ""
    """The environment variable that holds the key, never the key itself; empty: no key is sent."""
    script: str = ""
    """For the `scripted` backend: the file that is replayed, relative to the file that names it."""
    timeout_seconds: Annotated[float, Field(gt=0)] = 300.0
    """The timeout of a call, in seconds."""
    max_concurrency: PositiveInt = 16
    """How many calls may be open at once, in the whole tree of agents."""
    retry_max_seconds: NonNegativeFloat = 300.0
    """For how long a failing call is repeated, in seconds; 0: never."""


class ModelConfig(Section):
    """A model, and what it costs."""

    name: str
    """What the provider calls it."""
    provider: str
    """The name of one of the providers."""
    alias: str = ""
    """What you call it; empty: its name. A later layer's model of the same alias replaces the whole entry."""
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.2
    """Sampling temperature."""
    input_price: NonNegativeFloat | None = None
    """USD per million tokens sent; not set: looked up, else unknown."""
    output_price: NonNegativeFloat | None = None
    """USD per million tokens received; not set: looked up, else unknown."""
    max_output_tokens: PositiveInt | None = None
    """The longest reply, in tokens; not set: the provider decides."""
    context_size: PositiveInt = 128_000
    """How many tokens fit into one call."""

    @property
    def key(self) -> str:
        """What users call it: the alias, else the name."""
        return self.alias or self.name


class PlannerConfig(Section):
    """Defaults of plans that do not say otherwise."""

    max_parallel_steps: PositiveInt = 4
    """How many steps may run at once."""


class IpcConfig(Section):
    """The event bus."""

    address: str = ""
    """Where it listens; empty: a socket in a private run directory."""


class ToolTable(BaseModel):
    """What every tool's table may say; each tool adds keys of its own and validates them."""

    model_config = ConfigDict(frozen=True, extra="allow")

    permission: Literal["always", "ask", "never"] | None = None
    """Whether a call runs, is asked about, or is refused; not set: the tool's own default."""
    allowlist: tuple[str, ...] = ()
    """Patterns of calls that run without asking."""
    denylist: tuple[str, ...] = ()
    """Patterns of calls that are refused, whatever else was approved."""


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


class VibeConfig(Section):
    """Everything that can be set, after the layers were merged.

    Tool patterns are exact names, globs, or ``re:`` and a regular expression that matches the whole name.
    """

    active_model: str = "devstral-2"
    """The model that is used: an alias or a name of one of the models."""
    models: tuple[ModelConfig, ...] = DEFAULT_MODELS
    """The models that can be chosen; yours come before the built-in ones."""
    providers: tuple[ProviderConfig, ...] = DEFAULT_PROVIDERS
    """Where models are served; yours come before the built-in ones."""
    tools: dict[str, dict[str, Any]] = {}
    """A table a tool, such as `[tools.bash]`."""
    enabled_tools: tuple[str, ...] = ()
    """Patterns of the only tools there are; empty: all."""
    disabled_tools: tuple[str, ...] = ()
    """Patterns of tools there are not."""
    tool_paths: tuple[str, ...] = ()
    """Folders and files with tools of your own, relative to the file that names them."""
    auto_approve: bool = False
    """Whether calls that would be asked about run without asking; what is refused stays refused."""
    planner: PlannerConfig = PlannerConfig()
    """Plans."""
    ipc: IpcConfig = IpcConfig()
    """The event bus."""

    def find_model(self, name: str) -> ModelConfig | None:
        """The model of that alias, else of that name."""
        by_key = (model for model in self.models if model.key == name)
        by_name = (model for model in self.models if model.name == name)
        return next(by_key, None) or next(by_name, None)

    def find_provider(self, name: str) -> ProviderConfig | None:
        """The provider of that name."""
        return next((provider for provider in self.providers if provider.name == name), None)
