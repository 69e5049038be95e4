"""The models there are: those that are configured, and those that their providers offer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from msgspec import Struct
from pydantic import AliasChoices, BaseModel, Field, ValidationError, model_validator

from vibe.app.engine.host import Host
from vibe.core.config import presets
from vibe.core.config.loader import ConfigRequest, load_config, with_keyring
from vibe.core.config.models import BackendKind, ModelConfig, ProviderConfig, VibeConfig
from vibe.core.llm.backend.http import USER_AGENT, address, versioned
from vibe.core.llm.backend.local_server import problem_with
from vibe.core.llm.error_table import ErrorMapper
from vibe.core.llm.factory import ModelCatalog, filled_headers, key_of
from vibe.system.errors import EnvironmentFailure
from vibe.system.http import answer_to

if TYPE_CHECKING:
    import httpx2

PATIENCE_SECONDS = 15.0
MOST_PAGES = 20
"""The most pages of one list that are asked for, so that a server whose list never ends is not waited for."""


class ConfiguredModel(Struct, frozen=True, kw_only=True):
    """A configured model. ``name`` is what its provider calls it."""

    alias: str
    name: str
    provider: str
    active: bool
    missing: str | None
    """The reason why it can't be used, if there is one."""


class ModelOffer(Struct, frozen=True, kw_only=True):
    """The models that a provider offers, or the ``problem`` with asking it."""

    provider: str
    models: tuple[str, ...] = ()
    problem: str | None = None
    status: int | None = None
    """The HTTP status of a problem, if there was a response."""


class ModelListing(Struct, frozen=True, kw_only=True):
    """The answer of ``vibe models``."""

    configured: tuple[ConfiguredModel, ...]
    offers: tuple[ModelOffer, ...]
    """Empty unless the providers were asked."""
    warnings: tuple[str, ...]


class _Models(BaseModel):
    """The parts of the answer to ``GET /models`` that matter here.

    Some servers send only the list, or null for no models.
    """

    data: list[Any] | None = Field(validation_alias=AliasChoices("data", "models"))
    has_more: bool | None = None
    last_id: str | None = None

    @property
    def names(self) -> list[str]:
        """The names under which the models are called. Entries without one are left out."""
        return [name for entry in self.data or () if (name := _name_of(entry))]

    @model_validator(mode="before")
    @classmethod
    def _named(cls, answer: Any) -> Any:
        return {"data": cast("list[Any]", answer)} if isinstance(answer, list) else answer


def _name_of(entry: object) -> str:
    fields = cast("dict[str, object]", entry) if isinstance(entry, dict) else {"id": entry}
    name = fields.get("id") or fields.get("name")
    return name.removeprefix("models/") if isinstance(name, str) else ""  # only Gemini's list has that prefix


def list_models(host: Host, workdir: Path, *, trust: bool, online: bool, only: str = "") -> ModelListing:
    """List the models; with ``online``, ask the providers too. Blocks.

    ``only`` is a provider, configured or known by a preset. Then the others are left out, and it is asked.

    Raises:
        ConfigError: the configuration is wrong.
        UsageError: there is no provider of that name.
    """
    request = ConfigRequest(home=host.home, workdir=workdir, environ=host.environ, trust_workdir=trust)
    loaded = with_keyring(load_config(request))
    config, environ = loaded.config, loaded.environ
    active = config.find_model(config.active_model)
    configured = [
        ConfiguredModel(
            alias=model.key,
            name=model.name,
            provider=model.provider,
            active=model == active,
            missing=_missing(model, config, environ),
        )
        for model in config.models
        if not only or model.provider == only
    ]
    if only:
        providers = [presets.provider_named(only, config.providers)]
    else:
        usable = (one for one in config.providers if not one.api_key_env_var or environ.get(one.api_key_env_var))
        providers = [one for one in usable if online and one.is_server]
    offers = [offer_of(provider, environ) for provider in providers]
    return ModelListing(configured=tuple(configured), offers=tuple(offers), warnings=tuple(loaded.warnings))


def _missing(model: ModelConfig, config: VibeConfig, environ: Mapping[str, str]) -> str | None:
    provider = ModelCatalog(config, environ).provider(model)
    if provider.backend is BackendKind.LOCAL:
        return problem_with(config.local)
    key = provider.api_key_env_var
    return f"{key} is not set" if key and not environ.get(key) else None


def offer_of(provider: ProviderConfig, environ: Mapping[str, str]) -> ModelOffer:
    """Ask a provider for its models. One without a server offers none. Blocks, for some seconds at most."""
    if not provider.is_server:
        return ModelOffer(provider=provider.name)
    try:
        key = key_of(provider, environ)
        url, headers = _question(provider, key)
        headers |= {name.lower(): text for name, text in filled_headers(provider, environ).items()}
    except EnvironmentFailure as error:
        return ModelOffer(provider=provider.name, problem=str(error))
    import httpx2

    errors = ErrorMapper(provider=provider, api_key=key)
    try:
        names = set(_all_pages(httpx2.URL(url), headers))
        return ModelOffer(provider=provider.name, models=tuple(sorted(names)))
    except httpx2.HTTPStatusError as error:
        status, answer = error.response.status_code, error.response
        problem = errors.from_response(status, answer.text, answer.headers, str(answer.url))
        return ModelOffer(provider=provider.name, problem=str(problem), status=status)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        return ModelOffer(provider=provider.name, problem=str(errors.from_wire(error)))
    except ValidationError:
        return ModelOffer(provider=provider.name, problem=f"{provider.api_base}/models is not a list of models")


def _question(provider: ProviderConfig, key: str | None) -> tuple[str, dict[str, str]]:
    """Return the address to ask, and the headers to send."""
    own = {"user-agent": USER_AGENT}
    if not provider.speaks_messages:
        return address(provider.api_base, "models"), own | ({"authorization": f"Bearer {key}"} if key else {})
    from vibe.core.llm.backend.anthropic import headers_for

    return f"{address(versioned(provider.api_base), 'models')}?limit=1000", own | headers_for(key)


def _all_pages(url: httpx2.URL, headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the names on all pages. Most providers have a single page, and don't mention others."""
    page_url = url
    for _ in range(MOST_PAGES):
        # A redirect is not followed, because the key is meant only for this server.
        response = answer_to("GET", page_url, PATIENCE_SECONDS, headers=headers).raise_for_status()
        page = _Models.model_validate_json(response.content)
        yield from page.names
        if not (page.has_more and page.names):
            return
        page_url = url.copy_set_param("after_id", page.last_id or page.names[-1])
