"""The models there are: those that are configured, and what their providers offer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ValidationError

from vibe.app.engine.host import Host
from vibe.core.config.loader import ConfigRequest, load_config
from vibe.core.config.models import BackendKind, ModelConfig, ProviderConfig
from vibe.core.llm.backend.transport import import_httpx, system_tls

PATIENCE_SECONDS = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfiguredModel:
    """A model of the configuration."""

    model: ModelConfig
    provider: ProviderConfig | None
    active: bool
    missing: str | None
    """The reason why it can't be used, if there is one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOffer:
    """The models that a provider offers, or the ``problem`` with asking it."""

    provider: str
    models: tuple[str, ...] = ()
    problem: str | None = None
    status: int | None = None
    """The HTTP status of a problem, if there was an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelListing:
    """The answer of ``vibe models``."""

    configured: tuple[ConfiguredModel, ...]
    offers: tuple[ModelOffer, ...]
    """Empty unless the providers were asked."""
    warnings: tuple[str, ...]


class _Named(BaseModel):
    id: str


class _Models(BaseModel):
    """The answer to ``GET /models``, as far as it is looked at."""

    data: list[_Named]


def list_models(host: Host, workdir: Path, *, trust: bool, online: bool) -> ModelListing:
    """List them; ``online`` asks the providers. Blocks.

    Raises:
        ConfigError: the configuration is wrong.
    """
    loaded = load_config(ConfigRequest(home=host.home, workdir=workdir, environ=host.environ, trust_workdir=trust))
    config, environ = loaded.config, loaded.environ
    active = config.find_model(config.active_model)
    configured = [
        ConfiguredModel(
            model=model,
            provider=(provider := config.find_provider(model.provider)),
            active=model == active,
            missing=_missing(model, provider, environ),
        )
        for model in config.models
    ]
    offers = [
        offer_of(provider, environ) for provider in config.providers if online and _can_be_asked(provider, environ)
    ]
    return ModelListing(configured=tuple(configured), offers=tuple(offers), warnings=tuple(loaded.warnings))


def _missing(model: ModelConfig, provider: ProviderConfig | None, environ: Mapping[str, str]) -> str | None:
    if provider is None:
        return f"there is no provider {model.provider!r}"
    key = provider.api_key_env_var
    return f"{key} is not set" if key and not environ.get(key) else None


def _can_be_asked(provider: ProviderConfig, environ: Mapping[str, str]) -> bool:
    key = provider.api_key_env_var
    return provider.backend is not BackendKind.SCRIPTED and (not key or bool(environ.get(key)))


def offer_of(provider: ProviderConfig, environ: Mapping[str, str]) -> ModelOffer:
    """Ask a provider for its models. Blocks, for some seconds at most."""
    key = environ.get(provider.api_key_env_var) if provider.api_key_env_var else None
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    httpx = import_httpx()
    try:
        with httpx.Client(verify=system_tls(), timeout=PATIENCE_SECONDS) as client:
            response = client.get(f"{provider.api_base.rstrip('/')}/models", headers=headers)
            response.raise_for_status()
            return ModelOffer(provider=provider.name, models=_names(_Models.model_validate_json(response.content).data))
    except httpx.HTTPStatusError as error:
        status = error.response.status_code
        return ModelOffer(provider=provider.name, problem=f"{error.request.url} answered {status}", status=status)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return ModelOffer(provider=provider.name, problem=f"{provider.api_base} can't be reached: {error}")
    except ValidationError:
        return ModelOffer(provider=provider.name, problem=f"{provider.api_base}/models is not a list of models")


def _names(listed: Sequence[_Named]) -> tuple[str, ...]:
    return tuple(sorted({model.id for model in listed}))
