"""Settings sent to workers contain no secrets, and look the same to an agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.fakes.unprivileged import folder_of_nobody
from vibe.app.cluster import sent_settings
from vibe.app.cluster.sent_settings import settings_to_send, without_secrets
from vibe.app.engine.build import Engine, EngineRequest, build_engine
from vibe.app.engine.host import Host
from vibe.core.config.loader import GivenSettings
from vibe.core.config.models import VibeConfig
from vibe.system.errors import EnvironmentFailure, UsageError

TOKEN = "ghp_0123456789abcdefghijABCDEFGHIJ012345"  # noqa: S105  made up


def settings(**more: Any) -> VibeConfig:
    return VibeConfig.model_validate(more)


def test_only_references_to_variables_are_sent_of_headers_and_variables() -> None:
    config = settings(
        providers=[{"name": "p", "extra_headers": {"X-Key": "${KEY}", "X-Team": "red"}}],
        mcp_servers=[
            {
                "name": "github", "transport": "http", "url": "https://x/mcp",
                "headers": {"Authorization": "Bearer ${GITHUB}", "X-Own": "${env:OWN}", "X-Else": "${A:-b}"},
            },
            {"name": "files", "transport": "stdio", "command": "files", "env": {"TOKEN": TOKEN, "HOME": "${HOME}"}},
        ],
    )  # fmt: skip

    sent, left_out = without_secrets(config)

    assert left_out == (
        "providers[p].extra_headers.X-Team",
        "mcp_servers[github].headers.Authorization",
        "mcp_servers[github].headers.X-Else",
        "mcp_servers[files].env.TOKEN",
    )
    assert sent["providers"][0]["extra_headers"] == {"X-Key": "${KEY}"}
    assert [server.get("headers") for server in sent["mcp_servers"]] == [{"X-Own": "${env:OWN}"}, None]
    assert sent["mcp_servers"][1]["env"] == {"HOME": "${HOME}"}
    assert config.mcp_servers[1].env["TOKEN"] == TOKEN


def test_what_looks_like_a_secret_elsewhere_is_not_sent_and_its_server_is_off() -> None:
    config = settings(
        providers=[{"name": "p", "api_base": "https://me:geheim12@proxy/v1"}],
        mcp_servers=[
            {"name": "web", "transport": "http", "url": f"https://x/mcp?key={TOKEN}"},
            {"name": "run", "transport": "stdio", "command": ["run", "--token", TOKEN]},
        ],
        tools={"weather": {"api_key": "abc", "api_key_env": "WEATHER", "denylist": ["curl --token x"]}},
        telemetry={"otlp_endpoint": "http://x", "headers": {"a": TOKEN}},
        keys_in_keyring=["MISTRAL_API_KEY"],
    )

    sent, left_out = without_secrets(config)

    assert left_out == (
        "providers[p].api_base",
        "mcp_servers[web].url",
        "mcp_servers[run].command",
        "tools.weather.api_key",
    )
    assert [server["disabled"] for server in sent["mcp_servers"]] == [True, True]
    assert sent["tools"] == {"weather": {"api_key_env": "WEATHER", "denylist": ["curl --token x"]}}
    assert TOKEN not in str(sent)
    assert "geheim12" not in str(sent)
    assert VibeConfig.model_validate(sent).mcp_servers[1].command == ("run", "--token", "[redacted]")
    assert {"telemetry", "keys_in_keyring"}.isdisjoint(sent)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(home=tmp_path / "home", environ={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin", "MY_SECRET": TOKEN})


def write(folder: Path, **files: str) -> None:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_md", ".md").replace("_toml", ".toml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def settings_of(engine: Engine) -> dict[str, Any]:
    left_out = {"agent_paths": True, "providers": {"__all__": {"preset"}}}
    return engine.config.model_dump(exclude={**left_out, **dict.fromkeys(sent_settings.OF_THE_RUN, True)})


def test_a_worker_builds_the_same_engine_from_what_is_sent(host: Host, tmp_path: Path) -> None:
    workdir = tmp_path / "work"
    workdir.mkdir()
    own = 'instructions = "Be brief."\nagent_paths = ["../agents"]\n[tools.bash]\npermission = "never"\n'
    own += '[[providers]]\npreset = "openai"\n[[mcp_servers]]\nname = "a"\ntransport = "stdio"\ncommand = "a"\n'
    own += '[[mcp_servers]]\nname = "b"\ntransport = "http"\nurl = "https://b/mcp"\n'
    write(host.home, config_toml=own, AGENTS_md="rules", skills__s__SKILL_md="---\nname: s\ndescription: d\n---\n")
    write(tmp_path / "agents", mine_toml='description = "one of mine"\n')
    (host.home / ".env").write_text("MISTRAL_API_KEY=geheim\n")
    (host.home / "skills" / ".env").write_text("A=b")
    engine = build_engine(host, EngineRequest(workdir=workdir, flags={"auto_approve": True}))

    sent = settings_to_send(engine)
    there = Host(home=host.home, environ={"HOME": str(tmp_path / "else"), "PATH": "/usr/bin:/bin"})
    (host.home / "config.toml").unlink()
    for name, data in sent.files.items():
        (host.home / name).parent.mkdir(parents=True, exist_ok=True)
        (host.home / name).write_bytes(data)
    again = build_engine(there, sent.request)

    assert sorted(sent.files) == ["AGENTS.md", "given/10/agents/mine.toml", "skills/s/SKILL.md"]
    assert (sent.left_out, sent.warning) == ((), "")
    assert settings_of(again) == settings_of(engine)
    assert again.agents.get("mine").description == engine.agents.get("mine").description == "one of mine"
    assert list(again.guidance.skills.available) == ["s"]
    assert "geheim" not in str(sent)
    assert TOKEN not in str(sent)


def test_a_home_that_is_too_much_is_said(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sent_settings, "MOST_BYTES", 10)
    write(host.home, AGENTS_md="rules, and rules")

    with pytest.raises(UsageError, match=r"more than 2000 files or 0 MB, at .*AGENTS.md"):
        settings_to_send(build_engine(host, EngineRequest(workdir=tmp_path)))


@pytest.mark.parametrize("closed", ["skills", "skills/mine", "skills/mine/SKILL.md", "hooks.toml"])
def test_nothing_that_may_not_be_read_is_left_out_without_a_word(host: Host, closed: str) -> None:
    with folder_of_nobody() as folder:
        write(folder, skills__mine__SKILL_md="---\nname: mine\ndescription: d\n---\n")
        engine = build_engine(replace(host, home=folder), EngineRequest(workdir=folder))
        write(folder, hooks_toml="")
        (folder / closed).chmod(0)

        with pytest.raises(EnvironmentFailure, match=rf"{closed}: Permission denied: .*make it readable, or remove it"):
            settings_to_send(engine)


def test_a_warning_names_what_is_left_out_and_what_to_do() -> None:
    request = EngineRequest(workdir=Path("/"))
    sent = sent_settings.SentSettings(request=request, files={}, left_out=("mcp_servers[a].env.TOKEN",))

    assert sent.warning == (
        "not sent to the workers, since it may be a secret: mcp_servers[a].env.TOKEN; write ${NAME} in the settings, "
        "and set NAME where the workers run"
    )


def test_what_a_run_is_given_is_among_the_settings_and_its_secrets_are_not_sent(host: Host, tmp_path: Path) -> None:
    server = {"name": "files", "transport": "stdio", "command": "files", "env": {"TOKEN": TOKEN}}
    given = GivenSettings(values={"api_timeout": 7}, instructions="Be brief.", servers=(server,))
    engine = build_engine(replace(host, given=given), EngineRequest(workdir=tmp_path))

    sent = settings_to_send(engine)
    there = build_engine(replace(host, home=tmp_path / "there"), sent.request).config

    assert (there.api_timeout, there.instructions) == (7, "Be brief.")
    assert [one.name for one in there.mcp_servers] == ["files"]
    assert TOKEN not in str(sent.request)
