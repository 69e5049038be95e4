"""Every configuration in the providers' guide loads unchanged, and leads to a request to a server of its kind."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.fakes.llm_ports import MemoryObserver, request
from tests.fakes.model_server import ModelServer, Reply, ServedCall
from vibe.core.config.loader import ConfigRequest, LoadedConfig, load_config
from vibe.core.config.models import BackendKind, VibeConfig
from vibe.core.config.presets import PRESETS
from vibe.core.llm.factory import ModelCatalog
from vibe.core.llm.port import Completion

KEY = "sk-of-the-provider"
GUIDE = Path(__file__).parents[5] / "docs" / "guide" / "providers.md"
TEXT = GUIDE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"(?m)^##? (.+)\n|^```toml\n((?s:.*?))^```", TEXT)
"""Headings and blocks in order. One of each pair is blank."""


def configurations() -> list[Any]:
    """Return the blocks of the guide, each with the heading above it as its id."""
    heading, found = "", list[Any]()
    for title, block in BLOCKS:
        heading = title or heading
        if block:
            found.append(pytest.param(block, id=heading))
    return found


def loaded(folder: Path, text: str) -> LoadedConfig:
    home = folder / "home"
    home.mkdir(exist_ok=True)
    (home / "config.toml").write_text(text)
    (folder / "work").mkdir(exist_ok=True)
    asked = ConfigRequest(home=home, workdir=folder / "work", environ={"HOME": str(folder)})
    return load_config(asked)


async def asked_once(config: VibeConfig, environ: dict[str, str]) -> Completion:
    catalog = ModelCatalog(config, environ)
    model = catalog.resolve(None)
    done = await catalog.backend(model).complete(request(model=model), MemoryObserver())
    await catalog.aclose()
    return done


def test_every_preset_has_a_configuration() -> None:
    blocks = [tomllib.loads(block) for _, block in BLOCKS if block]
    assert {block["providers"][0].get("preset", "") for block in blocks} == {"", *PRESETS}


@pytest.mark.parametrize("text", configurations())
def test_a_configuration_of_the_guide_works_as_it_stands(tmp_path: Path, text: str) -> None:
    settings = loaded(tmp_path, text)
    assert settings.warnings == ()
    model = ModelCatalog(settings.config, {}).resolve(None)
    provider = settings.config.find_provider(model.provider)
    assert provider is not None
    assert provider.name in f"{tomllib.loads(text)['providers'][0]}"

    shape = (
        "mistral" if provider.backend is BackendKind.MISTRAL else "anthropic" if provider.speaks_messages else "openai"
    )
    with ModelServer(shape) as server:
        server.key = KEY if provider.api_key_env_var else ""
        server.enqueue(Reply(text="ok", reasoning="hm", tool_calls=(ServedCall(name="read", arguments='{"a": 1}'),)))
        here = provider.model_copy(update={"api_base": server.api_base})
        config = settings.config.model_copy(update={"providers": (here,)})
        done = anyio.run(asked_once, config, {provider.api_key_env_var: KEY})

    assert (done.message.content, done.message.reasoning, len(done.message.tool_calls)) == ("ok ", "hm", 1)
    assert server.requests[0].body["model"] == model.name
