"""Models are found by the names people use, and no provider is contacted before it can answer."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.fakes.llm_ports import MemoryObserver, request
from tests.fakes.model_server import ModelServer, Reply
from vibe.core.config.models import BackendKind, ModelConfig, ProviderConfig, VibeConfig
from vibe.core.llm.factory import ModelCatalog
from vibe.system.errors import ConfigError, EnvironmentFailure, MissingKeyError, UsageError


def catalog(*providers: ProviderConfig, environ: dict[str, str] | None = None) -> ModelCatalog:
    models = tuple(ModelConfig(name=f"{p.name}-model", alias=p.name, provider=p.name) for p in providers)
    return ModelCatalog(VibeConfig(providers=providers, models=models, active_model=providers[0].name), environ or {})


def local(name: str, api_base: str = "http://127.0.0.1:9/v1", key: str = "") -> ProviderConfig:
    return ProviderConfig(name=name, api_base=api_base, api_key_env_var=key)


def test_a_model_is_found_by_alias_by_name_and_as_the_active_one() -> None:
    models = ModelCatalog(VibeConfig(), {})
    assert models.resolve(None).name == "devstral-2512"
    assert models.resolve("devstral-small").name == "devstral-small-latest"
    assert models.resolve("devstral-small-latest").alias == "devstral-small"


def test_an_unknown_model_is_refused_with_the_closest_names_and_the_place() -> None:
    with pytest.raises(UsageError, match=r"no model 'devstal-2' .*did you mean 'devstral-2'.*\[\[models\]\].*config"):
        ModelCatalog(VibeConfig(), {}).resolve("devstal-2")
    with pytest.raises(UsageError, match=r"'zzz' \(active_model\): configured are 'devstral-2', 'devstral-small'"):
        ModelCatalog(VibeConfig(active_model="zzz"), {}).resolve(None)
    with pytest.raises(UsageError, match=r"no model 'local-gguf' .*: the engine of local models is not installed: pip"):
        ModelCatalog(VibeConfig(), {}).resolve("local-gguf")
    with pytest.raises(UsageError, match="configured are none"):
        ModelCatalog(VibeConfig(models=()), {}).resolve("x")


@pytest.mark.parametrize("environ", [{}, {"MISTRAL_API_KEY": ""}, {"MISTRAL_API_KEY": " \n"}])
def test_a_missing_key_is_told_before_any_request(environ: dict[str, str]) -> None:
    models = ModelCatalog(VibeConfig(), environ)
    with pytest.raises(MissingKeyError, match="MISTRAL_API_KEY"):
        models.backend(models.resolve(None))


@pytest.mark.parametrize("key", ["sk-\u00e4", "sk-a\nb"])
def test_a_key_that_no_header_can_carry_is_refused_without_showing_it(key: str) -> None:
    models = catalog(local("acme", key="ACME_KEY"), environ={"ACME_KEY": key})
    with pytest.raises(EnvironmentFailure, match="ACME_KEY") as caught:
        models.backend(models.resolve(None))
    assert "sk-" not in str(caught.value)


def test_one_backend_serves_all_models_of_a_provider() -> None:
    models = catalog(local("a"), local("b"))
    first = models.backend(models.resolve("a"))
    assert models.backend(ModelConfig(name="other", provider="a")) is first
    assert models.backend(models.resolve("b")) is not first


async def test_a_scripted_provider_replays_its_file(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    script = {"version": 1, "agents": {"*": {"turns": [{"text": "hi", "fault": {"error": "protocol"}}]}}}
    await anyio.Path(path).write_text(json.dumps(script), encoding="utf-8")
    models = catalog(ProviderConfig(name="demo", backend=BackendKind.SCRIPTED, script=str(path)))
    model = models.resolve(None)
    seen = MemoryObserver()
    done = await models.backend(model).complete(request(model=model), seen)
    await models.aclose()
    assert (done.message.content, len(seen.notices)) == ("hi", 1)


async def test_a_bad_script_is_told_as_a_setting_and_not_tried_again(tmp_path: Path) -> None:
    path = anyio.Path(tmp_path / "s.json")
    await path.write_text('{"version": 1}', encoding="utf-8")
    models = catalog(ProviderConfig(name="demo", backend=BackendKind.SCRIPTED, script=str(path)))
    seen = MemoryObserver()
    with pytest.raises(ConfigError, match=r"s\.json: agents: Field required"):
        await models.backend(models.resolve(None)).complete(request(), seen)
    assert seen.notices == []


@pytest.mark.parametrize("script", ["", "demo.yaml", "/no/such/file.yaml"])
def test_a_script_that_cannot_be_found_for_sure_is_refused(script: str) -> None:
    models = catalog(ProviderConfig(name="demo", backend=BackendKind.SCRIPTED, script=script))
    with pytest.raises(ConfigError, match=r"providers\.demo\.script"):
        models.backend(models.resolve(None))


HEAVY = ["httpx", "httpx2", "httpx2._main", "mistralai.client", "yaml", "genai_prices", "click", "rich", "truststore"]


def loaded_after(code: str) -> set[str]:
    probe = f"import sys, json\n{code}\nprint(json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    done = subprocess.run([sys.executable, "-c", probe], check=True, capture_output=True, timeout=120)
    return set(json.loads(done.stdout))


def test_the_catalog_costs_no_heavy_import() -> None:
    build = (
        "from vibe.core.llm.factory import ModelCatalog\n"
        "from vibe.core.config.models import VibeConfig\n"
        "c = ModelCatalog(VibeConfig(), {'MISTRAL_API_KEY': 'k'})\n"
        "c.backend(c.resolve('local')); c.backend(c.resolve(None))"
    )
    assert loaded_after(build) == set()


def test_the_http_library_comes_without_its_command_line() -> None:
    use = "import httpx2\nfrom vibe.system.http import client_options\nhttpx2.AsyncClient(**client_options())"
    assert loaded_after(use) == {"httpx2", "truststore"}


def test_a_json_script_needs_no_yaml(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text('{"version": 1, "agents": {"*": {"turns": []}}}', encoding="utf-8")
    load = f"from pathlib import Path\nfrom vibe.core.llm.backend.scripted import load_script\nload_script(Path({str(path)!r}))"
    assert loaded_after(load) == set()


def test_a_style_we_do_not_speak_is_refused_where_it_is_used() -> None:
    models = catalog(local("acme"), ProviderConfig(name="claude", api_base="http://h/v1", api_style="vertex"))

    assert models.backend(models.resolve("acme"))
    with pytest.raises(
        ConfigError, match=r"providers\.claude\.api_style: 'vertex' is not a style.* 'openai', 'anthropic'"
    ):
        models.backend(models.resolve("claude"))


@pytest.mark.parametrize("settings", [{"backend": BackendKind.ANTHROPIC}, {"api_style": "anthropic"}])
async def test_the_messages_api_is_spoken_by_backend_or_by_style(settings: dict[str, Any]) -> None:
    with ModelServer("anthropic") as server:
        server.enqueue(Reply(text="hi"))
        models = catalog(ProviderConfig(name="claude", api_base=server.url, **settings))
        done = await models.backend(models.resolve(None)).complete(request(), MemoryObserver())
        await models.aclose()
    assert (done.message.content, server.requests[0].path) == ("hi ", "/v1/messages")


def test_a_provider_without_a_timeout_has_that_of_all() -> None:
    own = ProviderConfig(name="own", api_base="http://h/v1", timeout_seconds=300)
    config = VibeConfig(
        providers=(local("acme"), own), models=(ModelConfig(name="m", provider="acme"),), api_timeout=42
    )
    models = ModelCatalog(config, {})

    assert models.provider(ModelConfig(name="m", provider="acme")).silence_seconds == 42
    assert models.provider(ModelConfig(name="m", provider="own")).silence_seconds == 300
    assert local("alone").silence_seconds == 300


def test_a_header_that_names_a_variable_needs_it() -> None:
    provider = ProviderConfig(name="acme", api_base="http://h/v1", extra_headers={"X-Team": "${TEAM}"})

    assert catalog(provider, environ={"TEAM": "search"}).backend(ModelConfig(name="m", provider="acme"))
    with pytest.raises(EnvironmentFailure, match="'acme' needs the environment variable TEAM for extra_headers"):
        catalog(provider).backend(ModelConfig(name="m", provider="acme"))
