"""A preset fills in a known provider, whose key goes to nobody else."""

from __future__ import annotations

import tomllib

import pytest

from tests.unit.core.config.surroundings import Surroundings
from vibe.app.engine.host import Host
from vibe.app.engine.settings import Settings
from vibe.core.config.models import BackendKind, ProviderConfig
from vibe.core.config.presets import PRESETS


def provider(surroundings: Surroundings, text: str, name: str) -> ProviderConfig:
    surroundings.user_file(text)
    loaded = surroundings.load()
    assert loaded.warnings == ()
    found = loaded.config.find_provider(name)
    assert found is not None
    return found


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_all_a_provider_needs(surroundings: Surroundings, name: str) -> None:
    found = provider(surroundings, f'[[providers]]\npreset = "{name}"\n', name)
    assert found == PRESETS[name].model_copy(update={"preset": name})
    assert found.api_base.startswith("https://" if found.api_key_env_var else "http://")


def test_what_is_set_beside_a_preset_wins(surroundings: Surroundings) -> None:
    text = '[[providers]]\npreset = "zai"\nname = "plan"\napi_base = "https://api.z.ai/api/coding/paas/v4"\ntimeout_seconds = 9\n'
    found = provider(surroundings, text, "plan")
    assert (found.api_base, found.api_key_env_var) == ("https://api.z.ai/api/coding/paas/v4", "ZAI_API_KEY")
    assert (found.timeout_seconds, found.returns_reasoning) == (9, True)


def test_two_of_one_preset_have_names_of_their_own(surroundings: Surroundings) -> None:
    text = '[[providers]]\npreset = "vllm"\n[[providers]]\npreset = "vllm"\nname = "b"\napi_base = "http://b:8000/v1"\n'
    assert provider(surroundings, text, "b").api_base == "http://b:8000/v1"
    assert surroundings.load().config.find_provider("vllm") == PRESETS["vllm"].model_copy(update={"preset": "vllm"})


def test_what_a_preset_sets_is_said_to_be_from_where_it_stands(surroundings: Surroundings) -> None:
    surroundings.user_file('\n[[providers]]\npreset = "anthropic"\n')
    loaded = surroundings.load()
    assert loaded.origins["providers[anthropic].api_base"] == "~/.vibe/config.toml:2"
    assert loaded.config.providers[0].backend is BackendKind.ANTHROPIC


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('preset = "opnai"', "providers[0].preset: unknown preset 'opnai': did you mean 'openai'"),
        ('preset = "zzzzzz"', "unknown preset 'zzzzzz': choose from mistral, llamacpp, openai, anthropic"),
        ("preset = 5", "providers[0].preset: unknown preset 5"),
        (
            'preset = "openai"\napi_base = "https://gateway.example/v1"',
            "providers[0].api_base: is not the server of 'openai', the only one to get OPENAI_API_KEY",
        ),
        ('preset = "openai"\napi_base = "http://api.openai.com/v1"', "is not the server"),
        ('preset = "openai"\napi_base = "https://api.openai.com@evil.example/v1"', "is not the server"),
    ],
)
def test_a_preset_that_will_not_do_is_refused(surroundings: Surroundings, text: str, problem: str) -> None:
    surroundings.user_file(f"[[providers]]\n{text}\n")
    refused = "\n".join(surroundings.refusal())
    assert problem in refused
    assert "config.toml:" in refused


@pytest.mark.parametrize("variable", ["GATEWAY_KEY", ""])
def test_another_server_gets_its_own_key_or_none(surroundings: Surroundings, variable: str) -> None:
    text = f'[[providers]]\npreset = "openai"\napi_base = "https://gw.example/v1"\napi_key_env_var = "{variable}"\n'
    assert provider(surroundings, text, "openai").api_key_env_var == variable


def test_a_preset_is_set_by_a_variable_and_changed_by_its_name(surroundings: Surroundings) -> None:
    loaded = surroundings.load(environ={"VIBE_PROVIDERS": '[{"preset": "groq"}]'})
    assert loaded.config.providers[0].name == "groq"

    path = surroundings.user_file('[[providers]]\npreset = "groq"\n')
    surroundings.project.mkdir(parents=True, exist_ok=True)
    host = Host(home=surroundings.home, environ={"HOME": str(surroundings.user_home)})
    key = "providers[groq].timeout_seconds"
    Settings(host, surroundings.project).writer(project=False, key=key).set(key, 5.0)
    assert tomllib.loads(path.read_text())["providers"] == [{"preset": "groq", "timeout_seconds": 5.0}]
