"""Covers ``vibe.core.tools.files``, ``vibe.core.llm``."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tests.e2e.conftest import Finished, VibeCommand
from tests.fakes.model_server import ModelServer, Received, Reply, ServedCall

PICTURE = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


def look_then_say(request: Received) -> Reply:
    if any(message["role"] == "tool" for message in request.body["messages"]):
        return Reply(text="A red dot.")
    return Reply(tool_calls=(ServedCall(name="read_file", arguments=json.dumps({"path": "dot.png"})),))


def ask(vibe: VibeCommand, server: ModelServer, backend: str, *, sees: bool) -> Finished:
    (vibe.workdir / "dot.png").write_bytes(PICTURE)
    vibe.environ["MODEL_KEY"] = "sk-x"
    vibe.configure(
        f'active_model = "m"\n[[providers]]\nname = "here"\nbackend = "{backend}"\napi_base = "{server.api_base}"\n'
        f'api_key_env_var = "MODEL_KEY"\n[[models]]\nname = "m"\nprovider = "here"\nsees_images = {str(sees).lower()}\n'
    )
    return vibe("-p", "what is on dot.png?", "--output", "json")


def last_messages(server: ModelServer) -> list[dict[str, Any]]:
    return server.requests[-1].body["messages"][-2:]


@pytest.mark.parametrize(("backend", "shape"), [("generic", "openai"), ("mistral", "mistral")])
def test_a_model_that_sees_is_shown_the_picture(vibe: VibeCommand, backend: str, shape: Any) -> None:
    with ModelServer(shape=shape, responder=look_then_say) as server:
        ended = ask(vibe, server, backend, sees=True)
        result, shown = last_messages(server)

    assert (ended.code, ended.document["result"].strip()) == (0, "A red dot.")
    assert result["content"] == "[dot.png: an image, image/png]"
    assert shown["role"] == "user"
    address = "data:image/png;base64," + base64.b64encode(PICTURE).decode()
    assert shown["content"][1] == {"type": "image_url", "image_url": {"url": address}}


def test_a_model_that_does_not_see_is_told_what_the_file_is(vibe: VibeCommand) -> None:
    with ModelServer(responder=look_then_say) as server:
        ended = ask(vibe, server, "generic", sees=False)
        _, result = last_messages(server)

    assert ended.code == 0
    assert "is not text" in result["content"]


def seen(vibe: VibeCommand, *words: str, sees: bool = True) -> tuple[Finished, list[dict[str, Any]]]:
    """Run a prompt, and return its result and the parts that the model received."""
    with ModelServer(responder=lambda _: Reply(text="I see.")) as server:
        ask(vibe, server, "generic", sees=sees)
        ended = vibe("-p", *words)
        content: str | list[dict[str, Any]] = server.requests[-1].body["messages"][-1]["content"]
    return ended, [{"type": "text", "text": content}] if isinstance(content, str) else content


def test_a_picture_that_a_prompt_mentions_or_a_flag_names_is_attached(vibe: VibeCommand) -> None:
    (vibe.workdir / "two words.jpg").write_bytes(b"\xff\xd8\xff rest")
    for words, count in (
        (("what is on @dot.png?",), 1),
        (('@"two words.jpg" and @dot.png',), 2),
        (("what is it?", "--image", "dot.png", "--image", "two words.jpg"), 2),
        (("see @dot.png", "--image", "two words.jpg"), 2),
    ):
        ended, content = seen(vibe, *words)
        assert (ended.code, ended.out.strip()) == (0, "I see.")
        assert [part["type"] for part in content].count("image_url") == count


def test_what_is_not_attached_is_said(vibe: VibeCommand) -> None:
    ended, content = seen(vibe, "what is on @dot.png?", sees=False)
    assert [part["type"] for part in content] == ["text"]
    assert "dot.png: not attached, as m sees no images" in ended.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("x", "--image", "none.png"), "none.png can't be read"),
        (("x", "--image", "text.png"), "is not an image that models accept"),
        (("x", "--image", "large.png"), "is an image of 4000001 bytes"),
        (("see @large.png",), "is an image of 4000001 bytes"),
    ],
)
def test_a_picture_that_cannot_be_taken_is_an_error_in_a_sentence(
    vibe: VibeCommand, words: tuple[str, ...], said: str
) -> None:
    (vibe.workdir / "text.png").write_text("no picture")
    (vibe.workdir / "large.png").write_bytes(PICTURE.ljust(4_000_001))
    with ModelServer(responder=lambda _: Reply(text="I see.")) as server:
        ask(vibe, server, "generic", sees=True)
        ended = vibe("-p", *words)
    assert ended.code == 2
    assert said in ended.err
