"""The first words of a command line: a command, a prompt or neither, and the help with writing them.

Covers ``vibe.cli.commands``.
"""

from __future__ import annotations

import json
import shlex
import subprocess

import pytest

from tests.e2e.conftest import REPOSITORY, VibeCommand
from tests.e2e.test_prompt import turns
from tests.fakes.web_server import Page, WebServer
from vibe.cli.grammar import COMMANDS


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("plam run x.json", "unknown command 'plam': did you mean 'plan'"),
        ("sesion list", "unknown command 'sesion': did you mean 'session'"),
        ("Plan", "unknown command 'Plan': did you mean 'plan'"),
        ("init", "unknown command 'init': use `vibe setup`"),
        ("run plan.json", "unknown command 'run': use `vibe plan run FILE`"),
        ("login --trust", "unknown command 'login'"),
        ("version", "use `vibe --version`"),
        ("--trust plan run x.json", "`vibe plan run` is a command: write its options behind it"),
        ("--output json plan list", "`vibe plan list` is a command: write its options behind it"),
        ("--auto-approve --model m doctor", "`vibe doctor` is a command: write its options behind it"),
    ],
)
def test_what_is_meant_as_a_command_is_no_prompt(vibe: VibeCommand, line: str, said: str) -> None:
    vibe.replay(turns({"text": "fine"}))

    ended = vibe(*line.split())

    assert (ended.code, ended.out, ended.err.count("\n")) == (2, "", 1)
    assert said in ended.err
    assert "a prompt is given with `vibe -p PROMPT`" in ended.err
    assert not (vibe.home / "logs" / "session").exists()


@pytest.mark.parametrize(
    "line",
    [
        "-p plam",
        "-p init",
        "'plam run'",
        "run -p tests",
        "fix the bug",
        "run all the tests",
        "--yolo plan a trip",
        "--trust setup the tests",
        "--yolo -p plan list",
        "--trust --prompt=doctor",
    ],
)
def test_everything_else_is_a_prompt(vibe: VibeCommand, line: str) -> None:
    vibe.replay(turns({"text": "fine"}))

    assert vibe(*shlex.split(line)).out == "fine\n"


def test_help_is_a_command(vibe: VibeCommand) -> None:
    assert vibe("help").out == vibe("--help").out
    assert vibe("help", "plan", "run").out == vibe("plan", "run", "--help").out
    assert all(f"\n  {name} " in vibe("help").out for name in COMMANDS)
    assert "did you mean 'plan'" in vibe("help", "plam").err
    none = vibe("help", "nonsense")
    assert (none.code, none.out) == (2, "")
    assert "unknown command 'nonsense': `vibe --help` lists them" in none.err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("plan logs nowhere --follow step", "no plan has run yet"),
        ("events answer nobody --by me request yes", "nobody is not a run"),
        ("plan status nowhere --output json a --page 1 b", "unknown argument 'b'"),
        ("plan status nowhere --outptu json a", "did you mean '--output'"),
    ],
)
def test_an_option_may_stand_before_an_argument_that_may_be_left_out(vibe: VibeCommand, line: str, said: str) -> None:
    vibe.replay(turns({"text": "fine"}))

    ended = vibe(*line.split())

    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err
    assert vibe("fix", "--yolo", "the", "bug").out == "fine\n"


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["pl"], ["plan"]),
        (["plan", "va"], ["validate"]),
        (["plan", "run", "--dry"], ["--dry-run"]),
        (["completions", "f"], []),
        (["--auto"], ["--auto-approve"]),
    ],
)
def test_bash_completes(vibe: VibeCommand, typed: list[str], offered: list[str]) -> None:
    words = shlex.join(["vibe", *typed])
    script = f'eval "$1" && declare -F _vibe >&2 || exit; COMP_WORDS=({words}); COMP_CWORD={len(typed)}; _vibe; printf "%s\\n" "${{COMPREPLY[@]}}"'

    ended = subprocess.run(
        ["bash", "-uc", script, "bash", vibe("completions", "bash").out],
        cwd=vibe.workdir,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert set(offered) <= set(ended.stdout.split())
    assert all(word.startswith(typed[-1]) for word in ended.stdout.split())


def test_the_providers_of_the_readme_can_be_configured_as_it_says(vibe: VibeCommand) -> None:
    readme = (REPOSITORY / "README.md").read_text(encoding="utf-8")
    recipe = readme.partition("## Another model")[2].partition("```toml\n")[2].partition("```")[0]
    rows = [line.strip("| ").split(" | ") for line in readme.splitlines() if "`http" in line and line.startswith("|")]
    assert [row[0] for row in rows] == ["OpenAI", "OpenRouter", "Ollama"]

    for _, base, key, name in rows:
        variable = key.strip("`") if key.startswith("`") else ""
        text = recipe.replace("https://api.openai.com/v1", base.strip("`")).replace("gpt-4.1", name.strip("`"))
        vibe.configure(
            text.replace('api_key_env_var = "OPENAI_API_KEY"\n', f'api_key_env_var = "{variable}"\n' * bool(variable))
        )
        listed = vibe("models")
        assert (listed.code, listed.err) == (0, "")
        assert f"* {name.strip('`')}" in listed.out
        assert (f"({variable} is not set)" in listed.out.split("\n* ")[-1]) == bool(variable)
        assert vibe("doctor").out.count("FAIL keys") == bool(variable)


@pytest.mark.parametrize("backend", ["anthropic", "generic"])
def test_one_provider_is_asked_by_its_name(vibe: VibeCommand, backend: str) -> None:
    key, path = "sk-ant-of-the-provider", "/v1/models?limit=1000" if backend == "anthropic" else "/v1/models"
    vibe.environ["CLAUDE_KEY"] = key
    with WebServer({}).running() as thief, WebServer({}).running() as server:
        vibe.configure(
            f'[[providers]]\nname = "claude"\nbackend = "{backend}"\n'
            f'api_base = "http://127.0.0.1:{server.port}/v1"\napi_key_env_var = "CLAUDE_KEY"\n'
        )
        server.pages[path] = Page(b'{"data": [{"type": "model", "id": "b"}, {"id": "a"}], "has_more": false}')
        listed = vibe("models", "--provider", "claude")
        server.pages[path] = Page(b'{"data": [{"id": "a"}], "has_more": true, "last_id": "a/1"}')
        server.pages[f"{path}{'&' if '?' in path else '?'}after_id=a%2F1"] = Page(
            b'{"data": [{"id": "z"}, 5, "y", {}]}'
        )
        paged = vibe("models", "--provider", "claude")
        server.pages[path] = Page(b'[{"name": "c"}]')
        bare = vibe("models", "--provider", "claude")
        server.pages[path] = Page(b'{"object": "list", "data": null}')
        empty = vibe("models", "--provider", "claude")
        server.pages[path] = Page(b"", 302, {"Location": f"http://127.0.0.1:{thief.port}/"})
        moved = vibe("models", "--provider", "claude")
        server.pages[path] = Page(f'{{"error": {{"message": "no such key {key}"}}}}'.encode(), 401)
        refused = vibe("models", "--provider", "claude")

    assert (listed.code, listed.out) == (0, "claude offers:\n  a\n  b\n")
    assert paged.out == "claude offers:\n  a\n  y\n  z\n"
    assert (bare.out, empty.out) == ("claude offers:\n  c\n", "claude offers no model\n")
    assert (moved.code, thief.hosts) == (3, [])
    assert "(HTTP 302): redirected to" in moved.out
    assert "(HTTP 401): no such key ***; check " in refused.out
    assert key not in moved.out + moved.err + refused.out + refused.err


def test_without_a_key_another_provider_whose_key_is_set_is_named(vibe: VibeCommand) -> None:
    vibe.configure("")

    missing = vibe.process("-p", "hi")
    vibe.environ["OPENAI_API_KEY"] = "sk-not-shown"
    helped = vibe.process("-p", "hi")

    assert (missing.code, "is set" in missing.err) == (3, False)
    assert (helped.code, "sk-not-shown" in helped.err) == (3, False)
    assert "; OPENAI_API_KEY is set: `vibe setup --provider openai` takes it" in helped.err


def test_a_provider_that_cannot_be_asked_is_told_with_the_reason(vibe: VibeCommand) -> None:
    keyless, unknown = vibe("models", "--provider", "anthropic"), vibe("models", "--provider", "antropic")
    assert keyless.code == 3
    assert keyless.out.startswith(
        "anthropic: no API key for provider 'anthropic': set the environment variable ANTHROPIC_API_KEY"
    )
    assert unknown.code == 2
    assert "unknown provider 'antropic': did you mean 'anthropic'" in unknown.err


def test_models_are_listed_and_providers_asked(vibe: VibeCommand) -> None:
    pages = {
        "/v1/models": Page(b'{"object": "list", "data": [{"id": "b"}, {"id": "a\\u001b[31m", "owned_by": "x"}]}'),
        "/odd/models": Page(b"<html>"),
    }
    with WebServer(pages).running() as server:
        vibe.configure(
            "".join(
                f'[[providers]]\nname = "{name}"\napi_base = "http://127.0.0.1:{server.port}/{name}"\n'
                for name in ("v1", "odd", "gone")
            )
            + '[[providers]]\nname = "closed"\napi_base = "http://127.0.0.1:1/v1"\napi_key_env_var = "NO_KEY"\n'
            '[[providers]]\nname = "llamacpp"\napi_base = "http://127.0.0.1:1/v1"\napi_key_env_var = "NO_KEY"\n'
            '[[models]]\nname = "b"\nprovider = "v1"\nalias = "mine"\n'
        )
        vibe.environ["VIBE_ACTIVE_MODEL"] = "mine"
        listed = vibe("models")
        asked = vibe("models", "--online")
        document = json.loads(vibe("models", "--online", "--output", "json").out)

    assert listed.code == 0
    assert "* mine            v1 as b\n" in listed.out
    assert "  devstral-2      mistral as devstral-2512 (MISTRAL_API_KEY is not set)\n" in listed.out
    assert asked.code == 3
    assert "\nv1 offers:\n  a" in asked.out
    assert "\x1b" not in asked.out
    assert "odd: " in asked.out
    assert "/odd/models is not a list of models" in asked.out
    assert "/gone/models (HTTP 404)" in asked.out
    assert [offer["provider"] for offer in document["offers"]] == ["v1", "odd", "gone"]
    assert [model["alias"] for model in document["configured"] if model["active"]] == ["mine"]


@pytest.mark.parametrize("line", ["-c --resume abc -p hi", "--resume abc -c -p hi"])
def test_a_session_by_its_id_is_not_dropped_for_the_last_one(vibe: VibeCommand, line: str) -> None:
    ended = vibe(*line.split())

    assert (ended.code, ended.out) == (2, "")
    assert "not allowed with argument" in ended.err
