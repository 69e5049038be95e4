"""The first use without a front end: what can be chosen, what is tried, and what is saved."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from msgspec.structs import replace

from tests.fakes.keyrings import FileKeyring, LockedKeyring, keyring_of_this_process
from tests.fakes.model_server import ModelServer, Reply
from vibe.app.engine.host import Host
from vibe.app.first_use.flow import BadKeyError, FirstUse, KeyStore, ProviderChoice, SetupSelection
from vibe.app.inspect.trial import Trial, TrialFault
from vibe.core.config.dotenv import read_env_file
from vibe.core.config.presets import PRESETS
from vibe.system.errors import UsageError
from vibe.system.keyring import KeyringError

KEY = "sk-0123456789abcdefghijWXYZ"
SERVED = """# my settings
[[providers]]
name = "served"  # at home
api_base = "{api_base}"
api_key_env_var = "SERVED_KEY"
"""


class Setting:
    """A home, a folder to work in, and the environment."""

    def __init__(self, folder: Path) -> None:
        self.home, self.workdir = folder / "home", folder / "work"
        self.workdir.mkdir()
        self.home.mkdir()
        self.environ = {"HOME": str(folder)}

    def flow(self) -> FirstUse:
        return FirstUse(Host(home=self.home, environ=self.environ), self.workdir)

    @property
    def config(self) -> str:
        return (self.home / "config.toml").read_text()

    @property
    def env_file(self) -> Path:
        return self.home / ".env"


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting(tmp_path)


@pytest.fixture
def server(setting: Setting) -> Iterator[ModelServer]:
    with ModelServer() as running:
        (setting.home / "config.toml").write_text(SERVED.format(api_base=running.api_base))
        running.models = ("small", "large")
        running.key = KEY
        yield running


def selected(flow: FirstUse, model: str = "small", key: str = KEY) -> SetupSelection:
    return SetupSelection(choice=flow.choice("served"), model=model, key=key)


def tried(flow: FirstUse, selection: SetupSelection) -> Trial:
    return anyio.run(flow.try_out, selection)


def test_configured_providers_come_before_those_that_could_be(setting: Setting) -> None:
    (setting.home / "config.toml").write_text(SERVED.format(api_base="http://127.0.0.1:9/v1"))
    setting.env_file.write_text(f"SERVED_KEY={KEY}\n")
    setting.environ["OPENAI_API_KEY"] = KEY

    choices = [choice for choice in setting.flow().choices if choice.name in {"served", *PRESETS}]
    found = {choice.name: (choice.is_configured, choice.about) for choice in choices}

    assert list(found.items())[:6] == [
        ("served", (True, "127.0.0.1:9, its key is in ~/home/.env")),
        ("mistral", (True, "api.mistral.ai, needs a key")),
        ("llamacpp", (True, "127.0.0.1:8080, needs no key")),
        ("openai", (False, "api.openai.com, its key is in the environment")),
        ("anthropic", (False, "api.anthropic.com, needs a key")),
        ("openrouter", (False, "openrouter.ai, needs a key")),
    ]
    assert found["ollama"] == (False, "localhost:11434, needs no key")
    assert len(found) == len(PRESETS) + 1


def likely(flow: FirstUse) -> str:
    return flow.choices[flow.likely].name


def test_it_is_due_where_the_model_in_use_lacks_its_key(setting: Setting) -> None:
    assert setting.flow().is_due
    setting.env_file.write_text("MISTRAL_API_KEY=\n")
    assert setting.flow().is_due
    setting.env_file.write_text(f"OPENAI_API_KEY={KEY}\n")
    assert (setting.flow().is_due, likely(setting.flow())) == (True, "openai")  # the one that Enter takes
    setting.env_file.write_text(f"OPENAI_API_KEY={KEY}\nMISTRAL_API_KEY={KEY}\n")
    assert (setting.flow().is_due, likely(setting.flow())) == (False, "mistral")
    setting.env_file.unlink()
    (setting.home / "config.toml").write_text('active_model = "local"\n')
    assert not setting.flow().is_due


def test_a_token_that_is_there_for_other_things_chooses_nobody(setting: Setting) -> None:
    setting.environ["HF_TOKEN"] = KEY
    assert (setting.flow().is_due, likely(setting.flow())) == (True, "mistral")
    (setting.home / "config.toml").write_text('[[providers]]\npreset = "huggingface"\n')
    assert (setting.flow().is_due, likely(setting.flow())) == (True, "huggingface")


def test_a_provider_is_asked_for_models_with_its_own_headers(setting: Setting, server: ModelServer) -> None:
    text = setting.config + 'extra_headers = { X-Team = "${TEAM}" }\n'
    (setting.home / "config.toml").write_text(text)
    menu = setting.flow().models(setting.flow().choice("served"), KEY)
    assert "needs the environment variable TEAM for extra_headers" in menu.problem
    setting.environ["TEAM"] = "search"
    server.required = {"x-team": "search"}
    menu = setting.flow().models(setting.flow().choice("served"), KEY)
    assert (menu.names, menu.problem) == (("large", "small"), "")
    server.required = {"x-team": "other"}
    assert "401" in setting.flow().models(setting.flow().choice("served"), KEY).problem


def test_a_misspelled_provider_is_told(setting: Setting) -> None:
    with pytest.raises(UsageError, match="unknown provider 'mistrl': did you mean 'mistral'"):
        setting.flow().choice("mistrl")
    with pytest.raises(UsageError, match="unknown provider 'local': the engine of local models is not installed"):
        setting.flow().choice("local")


def test_a_key_and_a_model_are_tried_and_kept(setting: Setting, server: ModelServer) -> None:
    setting.env_file.write_text("# mine\nOTHER=1\n")
    server.enqueue(Reply(text="ready"))
    flow = setting.flow()

    menu = flow.models(flow.choice("served"), KEY)
    trial = tried(flow, selected(flow))
    told = flow.keep(selected(flow))

    assert (menu.names, menu.problem) == (("large", "small"), "")
    assert trial.fault is None, trial.sentence
    assert trial.sentence.startswith("small answered after")
    assert told == (
        "the key ****WXYZ is kept in ~/home/.env as SERVED_KEY",
        "active_model is 'small' in ~/home/config.toml",
    )
    assert setting.env_file.read_text() == f"# mine\nOTHER=1\nSERVED_KEY={KEY}\n"
    assert setting.env_file.stat().st_mode & 0o777 == 0o600
    assert KEY not in setting.config
    assert setting.config.startswith('# my settings\nactive_model = "small"\n')
    assert tomllib.loads(setting.config)["models"] == [{"name": "small", "provider": "served"}]
    assert not setting.flow().is_due


def test_nothing_is_kept_by_trying(setting: Setting, server: ModelServer) -> None:
    before = setting.config
    server.enqueue(Reply(text="ready"))
    flow = setting.flow()

    tried(flow, selected(flow))

    assert (setting.config, setting.env_file.exists()) == (before, False)


def test_a_preset_becomes_a_provider_of_the_settings(setting: Setting) -> None:
    flow = setting.flow()

    flow.keep(SetupSelection(choice=flow.choice("openai"), model="gpt-4.1", key=KEY))

    config = tomllib.loads(setting.config)
    assert config["providers"] == [
        {"name": "openai", "api_base": "https://api.openai.com/v1", "api_key_env_var": "OPENAI_API_KEY"}
    ]
    assert (config["models"], config["active_model"]) == ([{"name": "gpt-4.1", "provider": "openai"}], "gpt-4.1")
    assert setting.flow().choice("openai").is_configured


def test_a_configured_model_is_taken_as_it_is(setting: Setting) -> None:
    flow = setting.flow()

    flow.keep(SetupSelection(choice=flow.choice("mistral"), model="devstral-2512", key=KEY))

    assert tomllib.loads(setting.config) == {"active_model": "devstral-2"}


def test_a_model_whose_name_another_has_gets_one_of_its_own(setting: Setting) -> None:
    flow = setting.flow()

    flow.keep(SetupSelection(choice=flow.choice("openrouter"), model="devstral-2512", key=KEY))

    assert tomllib.loads(setting.config)["active_model"] == "openrouter/devstral-2512"
    assert FirstUse(Host(home=setting.home, environ=setting.environ), setting.workdir).choices


def test_what_wins_over_the_files_is_told(setting: Setting) -> None:
    setting.environ |= {"MISTRAL_API_KEY": "another", "VIBE_ACTIVE_MODEL": "local"}
    flow = setting.flow()

    told = flow.keep(SetupSelection(choice=flow.choice("mistral"), model="devstral-2", key=KEY))

    assert told[1::2] == (
        "MISTRAL_API_KEY has another value in the environment, which wins: unset it there",
        "VIBE_ACTIVE_MODEL sets active_model too, and wins here",
    )


def test_a_refused_key_is_a_sentence_without_it(setting: Setting, server: ModelServer) -> None:
    wrong = "sk-wrong-wrong-wrong-wrong-1234"
    assert server.key != wrong
    flow = setting.flow()

    menu = flow.models(flow.choice("served"), wrong)
    trial = tried(flow, selected(flow, key=wrong))

    assert menu.key_is_refused
    assert "(HTTP 401): Unauthorized; check " in menu.problem
    assert (trial.fault, trial.sentence) == (
        TrialFault.KEY,
        "'served' refused the key ****1234 (HTTP 401): check that all of it was copied and that it is still valid",
    )


def test_a_key_that_the_server_repeats_is_masked(setting: Setting, server: ModelServer) -> None:
    server.enqueue(Reply(status=400, body=f'{{"message": "what is {KEY}?"}}'))
    flow = setting.flow()

    trial = tried(flow, selected(flow))

    assert trial.fault is TrialFault.OTHER
    assert KEY not in trial.sentence


def test_a_server_that_is_gone_is_a_sentence(setting: Setting) -> None:
    with ModelServer() as gone:
        address = gone.api_base
    (setting.home / "config.toml").write_text(SERVED.format(api_base=address))
    flow = setting.flow()

    menu = flow.models(flow.choice("served"), KEY)
    trial = tried(flow, selected(flow))

    assert f"cannot be reached at {address.removesuffix('/v1')}" in menu.problem
    assert (trial.fault, trial.sentence) == (
        TrialFault.ADDRESS,
        f"'served' can't be reached at {address}: check the address and the network, or start the server there",
    )


@pytest.mark.parametrize(
    ("status", "body"), [(404, '{"message": "not found"}'), (400, '{"message": "Invalid model: huge"}')]
)
def test_a_model_that_is_not_served_is_a_sentence(
    setting: Setting, server: ModelServer, status: int, body: str
) -> None:
    server.enqueue(Reply(status=status, body=body))
    flow = setting.flow()

    trial = tried(flow, selected(flow, model="huge"))

    assert trial.fault is TrialFault.MODEL
    assert trial.sentence == f"'served' does not serve the model 'huge' (HTTP {status}): choose another"


def test_a_server_that_says_nothing_is_not_waited_for_long(
    setting: Setting, server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vibe.app.inspect.trial.TRIAL_SECONDS", 0.3)
    server.enqueue(Reply(text="ready", silent_after=0))
    flow = setting.flow()

    trial = tried(flow, selected(flow))

    assert trial.fault is TrialFault.ADDRESS
    assert "did not answer within 0.3 s" in trial.sentence


def test_a_server_at_its_limit_is_asked_once(setting: Setting, server: ModelServer) -> None:
    server.enqueue(Reply(status=429, body='{"message": "slow down"}'), Reply(text="ready"))
    flow = setting.flow()

    trial = tried(flow, selected(flow))

    assert trial.fault is TrialFault.OTHER
    assert "slow down" in trial.sentence
    assert len(server.requests) == 1


@pytest.mark.parametrize("text", ["", "  ", "two words", "sk-\x1b[31mred", "schlüssel", "two\nlines"])
def test_what_can_be_no_key_is_refused_and_not_repeated(setting: Setting, text: str) -> None:
    flow = setting.flow()
    choice: ProviderChoice = flow.choice("mistral")
    if not text:
        assert flow.keep(SetupSelection(choice=choice, model="devstral-2")) == (
            "active_model is 'devstral-2' in ~/home/config.toml",
        )
        return
    with pytest.raises(BadKeyError) as refused:
        flow.keep(SetupSelection(choice=choice, model="devstral-2", key=text))

    assert text.strip() == "" or text.strip() not in str(refused.value)
    assert not setting.env_file.exists()


def test_a_selection_never_shows_its_key(setting: Setting) -> None:
    flow = setting.flow()

    assert KEY not in repr(SetupSelection(choice=flow.choice("mistral"), model="x", key=KEY))


def test_names_are_found_by_their_parts(setting: Setting, server: ModelServer) -> None:
    server.models = ("acme/small-1", "acme/large-1", "large-1")
    flow = setting.flow()
    menu = flow.models(flow.choice("served"), KEY)

    assert menu.like("large-1") == ("large-1",)
    assert menu.like("Large acme") == ("acme/large-1",)
    assert menu.like("1") == ("acme/large-1", "acme/small-1", "large-1")
    assert menu.like("other") == ()


def test_a_key_that_is_in_the_file_is_used(setting: Setting, server: ModelServer) -> None:
    server.models = ("large", "small")
    setting.env_file.write_text(f"SERVED_KEY={KEY}\n")
    setting.env_file.chmod(0o600)
    flow = setting.flow()

    assert flow.models(flow.choice("served")).names == ("large", "small")
    assert read_env_file(setting.env_file, ".env").values == {"SERVED_KEY": KEY}


def test_a_key_in_the_keyring_is_found_replaced_moved_and_removed(setting: Setting, server: ModelServer) -> None:
    setting.env_file.write_text("SERVED_KEY=old\nOTHER=1\n")
    backend = FileKeyring(setting.home / "keyring.json")
    entry = "vibe-orchestrator/SERVED_KEY"
    with keyring_of_this_process(backend):
        for key in ("sk-first-first-first", KEY):
            flow = setting.flow()
            told = flow.keep(replace(selected(flow, key=key), store=KeyStore.KEYRING))
        assert told[0] == "the key ****WXYZ is kept in the keyring as SERVED_KEY"
        assert (backend.entries(), setting.env_file.read_text()) == ({entry: KEY}, "OTHER=1\n")
        assert (KEY in setting.config, tomllib.loads(setting.config)["keys_in_keyring"]) == (False, ["SERVED_KEY"])

        flow = setting.flow()
        assert (flow.is_due, flow.choice("served").key_place) == (False, "the keyring")
        assert flow.models(flow.choice("served")).names == ("small", "large")
        server.enqueue(Reply(text="ready"))
        assert tried(setting.flow(), selected(flow, key="")).fault is None

        flow.keep(selected(flow))
        assert (backend.entries(), setting.env_file.read_text()) == ({}, f"OTHER=1\nSERVED_KEY={KEY}\n")
        assert setting.flow().choice("served").key_place == "~/home/.env"

        flow = setting.flow()
        flow.keep(replace(selected(flow), store=KeyStore.KEYRING))
        flow = setting.flow()
        assert flow.forget_key(flow.choice("served")) == ("SERVED_KEY is removed from the keyring",)
        assert (backend.entries(), setting.flow().choice("served").key_place) == ({}, "")
        flow = setting.flow()
        with pytest.raises(UsageError, match=r"no key of 'served' in ~/home/\.env or the keyring"):
            flow.forget_key(flow.choice("served"))


def test_a_keyring_that_is_locked_keeps_nothing_and_changes_nothing(setting: Setting) -> None:
    flow = setting.flow()
    chosen = SetupSelection(choice=flow.choice("mistral"), model="devstral-2", key=KEY, store=KeyStore.KEYRING)
    with (
        keyring_of_this_process(LockedKeyring()),
        pytest.raises(KeyringError, match="Failed to unlock the collection!"),
    ):
        flow.keep(chosen)
    assert list(setting.home.iterdir()) == []
