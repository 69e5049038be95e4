"""Which configurations are refused or warned about, and in which words."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import pytest

from tests.unit.core.config.surroundings import Surroundings
from vibe.core.config.foreign_keys import FOREIGN_KEYS
from vibe.core.config.layers import InvalidConfigError
from vibe.core.config.loader import ConfigRequest, load_config
from vibe.core.config.models import (
    NO_ENGINE,
    BackendKind,
    McpServerConfig,
    ModelConfig,
    ProviderConfig,
    SessionLoggingConfig,
    VibeConfig,
)

FILE = "~/.vibe/config.toml"
BACKENDS = " or ".join(", ".join(f"'{kind}'" for kind in BackendKind).rsplit(", ", 1))


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    user: str = ""
    environ: dict[str, str] = field(default_factory=dict[str, str])
    told: tuple[str, ...]


REFUSED = {
    "broken toml": Refused(
        user='active_model = "local"\nauto_approve = \n',
        told=(f"{FILE}:2: is not valid TOML (Invalid value), correct this line",),
    ),
    "torn toml": Refused(
        user='enabled_tools = ["grep",\n',
        told=(f"{FILE}:1: is not valid TOML (Invalid value), correct this line",),
    ),
    "duplicate key": Refused(
        user="[planner]\nmax_parallel_steps = 2\n# again\nmax_parallel_steps = 3\n",
        told=(f"{FILE}:4: planner.max_parallel_steps: is already set on line 2, remove one of the two",),
    ),
    "duplicate table": Refused(
        user="[planner]\n[ipc]\n[planner]\n",
        told=(f"{FILE}:3: planner: is already set on line 1, remove one of the two",),
    ),
    "key that is a table": Refused(
        user='ipc.address = "x"\n[ipc]\n',
        told=(f"{FILE}:2: is not valid TOML (Cannot declare ('ipc',) twice), correct this line",),
    ),
    "wrong types, all at once": Refused(
        user='auto_approve = "yes"\nenabled_tools = "grep"\nactive_model = 3\n\n[planner]\nmax_parallel_steps = "4"\n',
        told=(
            f"{FILE}:3: active_model: must be a string, not 3",
            f'{FILE}:2: enabled_tools: must be a list such as ["a", "b"], not "grep"',
            f'{FILE}:1: auto_approve: must be true or false, not "yes"',
            f'{FILE}:6: planner.max_parallel_steps: must be a whole number, not "4"',
        ),
    ),
    "a NUL in a path": Refused(
        user='skill_paths = ["a\\u0000b"]\n', told=(f"{FILE}:1: skill_paths: holds a NUL character, remove it",)
    ),
    "longer than any clock": Refused(
        user="[project_context]\ntimeout_seconds = 1e308\n",
        told=(f"{FILE}:2: project_context.timeout_seconds: must be at most 86400, not 1e+308",),
    ),
    "list item": Refused(
        user='disabled_tools = [\n  "grep",\n  3,\n]\n',
        told=(f"{FILE}:1: disabled_tools[1]: must be a string, not 3",),
    ),
    "table for a value": Refused(user="planner = 3\n", told=(f"{FILE}:1: planner: must be a table, not 3",)),
    "tools is no table": Refused(user="tools = 3\n", told=(f"{FILE}:1: tools: must be a table, not 3",)),
    "a tool is no table": Refused(
        user='[tools]\nbash = "ask"\n', told=(f'{FILE}:2: tools.bash: must be a table, not "ask"',)
    ),
    "negative": Refused(
        user="planner.max_parallel_steps = -1\n",
        told=(f"{FILE}:1: planner.max_parallel_steps: must be at least 1, not -1",),
    ),
    "fraction": Refused(
        user="planner.max_parallel_steps = 1.5\n",
        told=(f"{FILE}:1: planner.max_parallel_steps: must be a whole number, not 1.5",),
    ),
    "entries": Refused(
        user=(
            '[[providers]]\nname = "p"\napi_base = "http://h/v1"\nbackend = "magic"\ntimeout_seconds = 0\n'
            '[[models]]\nname = "m"\nprovider = "mistral"\ntemperature = 3\ninput_price = -0.5\n'
            "output_price = inf\n"
        ),
        told=(
            f"{FILE}:9: models[m].temperature: must be at most 2, not 3",
            f"{FILE}:10: models[m].input_price: must be at least 0, not -0.5",
            f"{FILE}:11: models[m].output_price: must be a finite number, not Infinity",
            f'{FILE}:4: providers[p].backend: must be {BACKENDS}, not "magic"',
            f"{FILE}:5: providers[p].timeout_seconds: must be more than 0, not 0",
        ),
    ),
    "entry without what it needs": Refused(
        user='[[models]]\nname = "m"\n', told=(f"{FILE}:1: models[m].provider: is missing, set it",)
    ),
    "entry without a name": Refused(
        user='[[models]]\nprovider = "mistral"\n',
        told=(f"{FILE}:1: models[0].name: is missing or empty, give the entry a name",),
    ),
    "alias that is no name": Refused(
        user='[[models]]\nname = "m"\nalias = 1\nprovider = "mistral"\n',
        told=(f"{FILE}:3: models[1].alias: must be a string, not 1",),
    ),
    "model with a name of 100,000 letters": Refused(
        user=f'active_model = "{"x" * 100_000}"\n',
        told=(f"{FILE}:1: active_model: unknown model '{'x' * 59}…' (known: devstral-2, devstral-small, local)",),
    ),
    "entry that is no table": Refused(
        user='models = [\n  "m",\n]\n', told=(f"{FILE}:2: models[0]: must be a table such as [[models]], not 'm'",)
    ),
    "table where a list of tables belongs": Refused(
        user='[models]\nname = "m"\n',
        told=(f'{FILE}:1: models: must be a list such as ["a", "b"], not {{"name": "m"}}',),
    ),
    "the same entry twice": Refused(
        user='[[models]]\nname = "m"\nprovider = "mistral"\n[[models]]\nname = "n"\nalias = "m"\nprovider = "mistral"\n',
        told=(f"{FILE}:4: models[1]: 'm' is already set at {FILE}:1, remove one of the two or give one an alias",),
    ),
    "local model without its engine": Refused(
        user='active_model = "local-gguf"\n',
        told=(
            (
                f"{FILE}:1: active_model: unknown model 'local-gguf', {NO_ENGINE} "
                "(known: devstral-2, devstral-small, local)"
            ),
        ),
    ),
    "unknown model": Refused(
        user='active_model = "devstrl-2"\n',
        told=(
            (
                f"{FILE}:1: active_model: unknown model 'devstrl-2', did you mean 'devstral-2' or "
                "'devstral-small'? (known: devstral-2, devstral-small, local)"
            ),
        ),
    ),
    "unknown provider": Refused(
        user='[[models]]\nname = "m"\nprovider = "mistrl"\n',
        told=(
            (
                f"{FILE}:3: models[m].provider: unknown provider 'mistrl', did you mean 'mistral'? "
                "(known: mistral, llamacpp)"
            ),
        ),
    ),
    "providers without an address": Refused(
        user='[[providers]]\nname = "p"\n[[providers]]\nname = "q"\nbackend = "scripted"\n',
        told=(
            f"{FILE}:1: providers[p].api_base: is missing, backend 'generic' needs it",
            f"{FILE}:3: providers[q].script: is missing, backend 'scripted' needs it",
        ),
    ),
    "permission": Refused(
        user='[tools.read]\npermission = "sometimes"\nallowlist = "a"\ndenylist = ["b", 3]\n',
        told=(
            f"{FILE}:2: tools.read_file.permission: must be 'always', 'ask' or 'never', not \"sometimes\"",
            f'{FILE}:3: tools.read_file.allowlist: must be a list such as ["a", "b"], not "a"',
            f"{FILE}:4: tools.read_file.denylist[1]: must be a string, not 3",
        ),
    ),
    "one tool under both names": Refused(
        user='[tools.read_file]\npermission = "ask"\n[tools.read]\npermission = "never"\n',
        told=(f"{FILE}:3: tools.read: is the same tool as tools.read_file, put both tables into [tools.read_file]",),
    ),
    "regular expression": Refused(
        user='disabled_tools = ["re:("]\n',
        told=(
            (
                f"{FILE}:1: disabled_tools: 're:(' is not a valid regular expression "
                "(missing ), unterminated subpattern at position 0), correct it"
            ),
        ),
    ),
    "variables": Refused(
        environ={
            "VIBE_PLANNER__MAX_PARALLEL_STEPS": "many",
            "VIBE_ENABLED_TOOLS": "grep",
            "VIBE_AUTO_APPROVE": "maybe",
            "VIBE_PLANNER": "3",
        },
        told=(
            'VIBE_ENABLED_TOOLS: enabled_tools: must be a list such as ["a", "b"], not "grep"',
            'VIBE_AUTO_APPROVE: auto_approve: must be true or false, not "maybe"',
            'VIBE_PLANNER__MAX_PARALLEL_STEPS: planner.max_parallel_steps: must be a whole number, not "many"',
        ),
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_told_with_its_place(surroundings: Surroundings, name: str) -> None:
    case = REFUSED[name]
    surroundings.user_file(case.user)
    assert tuple(surroundings.refusal(environ=case.environ)) == case.told


def test_a_flag_is_called_by_its_name_when_it_is_wrong(surroundings: Surroundings) -> None:
    told = surroundings.refusal(flags={"active_model": "nope", "enabled_tools": ["re:["]})
    assert [sentence.split(": ")[0] for sentence in told] == ["--model", "--enabled-tools"]


def test_the_project_file_is_named_when_it_is_the_one_that_is_wrong(surroundings: Surroundings) -> None:
    surroundings.user_file("[planner]\nmax_parallel_steps = 3\n")
    surroundings.project_file("\n\n[planner]\nmax_parallel_steps = 0\n")
    assert surroundings.refusal() == [
        "~/code/project/.vibe/config.toml:4: planner.max_parallel_steps: must be at least 1, not 0"
    ]


def test_an_error_reads_as_all_its_problems_and_carries_the_first(surroundings: Surroundings) -> None:
    surroundings.user_file("auto_approve = 1\nactive_model = 2\n")
    with pytest.raises(InvalidConfigError) as caught:
        surroundings.load()
    error = caught.value
    assert str(error).splitlines() == [str(problem) for problem in error.problems]
    assert (error.where, error.key) == (f"{FILE}:2", "active_model")


def test_an_unreadable_file_is_named(surroundings: Surroundings) -> None:
    path = surroundings.home / "config.toml"
    path.parent.mkdir(parents=True)
    path.mkdir()
    assert surroundings.refusal() == [f"{FILE}: cannot be read (Is a directory), put a readable file there"]
    path.rmdir()
    os.mkfifo(path)
    assert surroundings.refusal() == [f"{FILE}: is a pipe, put a file there"]

    path.unlink()
    path.symlink_to("nowhere.toml")
    assert surroundings.refusal() == [f"{FILE}: cannot be read (No such file or directory), put a readable file there"]

    path.unlink()
    path.write_text(f"# {'x' * 1_000_000}\n")
    assert surroundings.refusal() == [f"{FILE}: is longer than 1,000,000 bytes, shorten it"]
    path.unlink()
    path.symlink_to("/dev/zero")
    assert surroundings.refusal() == [f"{FILE}: is longer than 1,000,000 bytes, shorten it"]
    path.unlink()
    path.write_bytes(b"\xff\xfe")
    assert surroundings.refusal() == [f"{FILE}: is not UTF-8 (byte 0), save it as UTF-8"]


def test_a_byte_order_mark_is_no_error(surroundings: Surroundings) -> None:
    surroundings.user_file('\ufeffactive_model = "local"\r\n')
    assert surroundings.load().config.active_model == "local"


@dataclass(frozen=True, slots=True, kw_only=True)
class Warned:
    user: str = ""
    environ: dict[str, str] = field(default_factory=dict[str, str])
    told: tuple[str, ...]


WARNED = {
    "misspelled": Warned(
        user='\nactiv_model = "local"\n',
        told=(f"{FILE}:2: unknown setting activ_model has no effect, did you mean 'active_model'?",),
    ),
    "misplaced": Warned(
        user="max_parallel_steps = 3\n",
        told=(
            f"{FILE}:1: unknown setting max_parallel_steps has no effect, did you mean 'planner.max_parallel_steps'?",
        ),
    ),
    "nothing like it": Warned(
        user="[quux]\nxyzzy = 1\n", told=(f"{FILE}:1: unknown setting quux has no effect, remove it",)
    ),
    "in a table": Warned(
        user="[planner]\n\nmax_paralel_steps = 3\n",
        told=(
            f"{FILE}:3: unknown setting planner.max_paralel_steps has no effect, did you mean 'planner.max_parallel_steps'?",
        ),
    ),
    "in an entry": Warned(
        user='[[models]]\nname = "m"\nprovider = "mistral"\ntemprature = 1\nthinking = "high"\n',
        told=(f"{FILE}:4: unknown setting models[0].temprature has no effect, did you mean 'models[m].temperature'?",),
    ),
    "in a tool's table": Warned(
        user='[tools.bash]\npermision = "never"\ntimeout = 3\n',
        told=(f"{FILE}:2: tools.bash.permision: did you mean 'permission'?",),
    ),
    "a variable": Warned(
        environ={"VIBE_ACTIV_MODEL": "x"},
        told=("VIBE_ACTIV_MODEL: unknown setting activ_model has no effect, did you mean 'active_model'?",),
    ),
}


@pytest.mark.parametrize("name", WARNED)
def test_an_unknown_key_is_warned_about_and_dropped(surroundings: Surroundings, name: str) -> None:
    case = WARNED[name]
    surroundings.user_file(case.user)
    assert surroundings.load(environ=case.environ).warnings == case.told


def test_looks_that_are_wrong_are_warned_about_and_as_usual_but_a_draft_with_them_is_refused(
    surroundings: Surroundings,
) -> None:
    text = '[ui]\nmouse = "yes"\nnotify = "loud"\ntheme = "nord"\n'
    file = surroundings.user_file(text)
    loaded = surroundings.load()
    assert (loaded.config.ui.mouse, loaded.config.ui.notify, loaded.config.ui.theme) == (True, "bell", "nord")
    assert loaded.warnings == (
        f'{FILE}:2: ui.mouse: must be true or false, not "yes"; it is as usual',
        f"{FILE}:3: ui.notify: must be 'bell', 'osc9' or 'off', not \"loud\"; it is as usual",
    )
    draft = surroundings.user_file(text, "draft.toml")
    request = ConfigRequest(home=surroundings.home, workdir=surroundings.project, drafts={file: draft})
    with pytest.raises(InvalidConfigError, match=r"ui\.mouse"):
        load_config(request)


def test_one_setting_of_mistral_vibe_is_named_as_one(surroundings: Surroundings) -> None:
    surroundings.user_file("vim_keybindings = true\n")
    (warning,) = surroundings.load().warnings
    assert warning.startswith("1 setting of Mistral Vibe has no effect here: `vibe doctor` names it")


def test_settings_of_mistral_vibe_are_one_line_and_each_can_be_asked_for(surroundings: Surroundings) -> None:
    surroundings.user_file(
        "".join(f"{name} = true\n" for name in sorted(FOREIGN_KEYS[""]))
        + '[session_logging]\nenabled = false\nsave_dir = "x"\n'
        + '[[tts]]\nname = "a"\n[tools.bash]\nworkdir = ""\n[tools.exit_plan_mode]\npermission = "ask"\n'
    )
    loaded = surroundings.load()
    count = len(FOREIGN_KEYS[""]) + 3
    assert loaded.warnings == (
        f"{FILE}:{len(FOREIGN_KEYS['']) + 4}: unknown setting tts has no effect, remove it",
        f"{count} settings of Mistral Vibe have no effect here: `vibe doctor` lists them, `vibe migrate` removes them",
    )
    assert len(loaded.foreign) == count
    kept = "sessions are kept below VIBE_HOME, in logs/session"
    assert loaded.foreign[-3:] == (
        f"{FILE}:{len(FOREIGN_KEYS['']) + 3}: session_logging.save_dir is a setting of Mistral Vibe without effect here: {kept}",
        f"{FILE}:{len(FOREIGN_KEYS['']) + 7}: tools.bash.workdir is a setting of Mistral Vibe without effect here",
        f"{FILE}:{len(FOREIGN_KEYS['']) + 8}: tools.exit_plan_mode is a setting of Mistral Vibe without effect here",
    )
    assert not loaded.config.session_logging.enabled
    assert loaded.config.tools == {}


def test_no_key_that_works_is_listed_as_foreign() -> None:
    sections = {
        "": VibeConfig, "providers": ProviderConfig, "models": ModelConfig, "mcp_servers": McpServerConfig,
        "session_logging": SessionLoggingConfig,
    }  # fmt: skip
    for table, section in sections.items():
        assert FOREIGN_KEYS[table] & set(section.model_fields) == set()


@pytest.mark.parametrize(
    "text",
    [
        "context_warnings = false",
        "memory_soft_limit_ratio = 0.95",
        'instructions = "Be brief."',
        "enable_experimental_hooks = true",
        '[[models]]\nname = "m"\nprovider = "mistral"\nthinking = "high"',
    ],
)
def test_a_key_of_the_engine_is_taken_without_a_word(surroundings: Surroundings, text: str) -> None:
    surroundings.user_file(text)
    assert surroundings.load().warnings == ()


REFUSED_SERVERS = {
    "no transport": ('name = "a"', "1: mcp_servers[a].transport: is missing, set it"),
    "unknown transport": (
        'name = "a"\ntransport = "sse"',
        "3: mcp_servers[a].transport: must be 'http', 'streamable-http' or 'stdio', not \"sse\"",
    ),
    "no command": (
        'name = "a"\ntransport = "stdio"',
        "1: mcp_servers[a].command: is missing, a server with transport 'stdio' needs it",
    ),
    "a command that is no words": (
        'name = "a"\ntransport = "stdio"\ncommand = ["a", 1]',
        '4: mcp_servers[a].command: must be a string or a list of strings, not ["a", 1]',
    ),
    "no address": (
        'name = "a"\ntransport = "http"',
        "1: mcp_servers[a].url: is missing, a server with transport 'http' needs it",
    ),
    "an address of another kind": (
        'name = "a"\ntransport = "http"\nurl = "localhost:1"',
        '4: mcp_servers[a].url: must be an address such as https://host/v1, not "localhost:1"',
    ),
    "a field of the other transport": (
        'name = "a"\ntransport = "stdio"\ncommand = "x"\nurl = "http://x"',
        "5: mcp_servers[a].url: has no effect for a server with transport 'stdio', remove it",
    ),
    "a header without a place for the key": (
        'name = "a"\ntransport = "http"\nurl = "http://x"\napi_key_format = "Bearer"',
        "5: mcp_servers[a].api_key_format: must contain {token} where the key goes",
    ),
    "no time to start": (
        'name = "a"\ntransport = "stdio"\ncommand = "x"\nstartup_timeout_sec = 0',
        "5: mcp_servers[a].startup_timeout_sec: must be more than 0, not 0",
    ),
    "a variable that is no text": (
        'name = "a"\ntransport = "stdio"\ncommand = "x"\nenv = { A = 1 }',
        "5: mcp_servers[a].env.A: must be a string, not 1",
    ),
}


@pytest.mark.parametrize("case", REFUSED_SERVERS)
def test_a_server_that_makes_no_sense_is_refused_with_its_place(case: str, surroundings: Surroundings) -> None:
    entry, told = REFUSED_SERVERS[case]
    surroundings.user_file(f"[[mcp_servers]]\n{entry}\n")

    with pytest.raises(InvalidConfigError) as raised:
        surroundings.load()

    assert f"{FILE}:{told}" in [str(problem) for problem in raised.value.problems]


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:8080/v1", "ftp://x/v1", "http://", "http://x:99999", "http://x:0", "http://[::1/v1", "http://a b"],
)
def test_an_address_at_which_nothing_can_be_asked_is_refused_with_its_line(
    address: str, surroundings: Surroundings
) -> None:
    surroundings.user_file(
        f'[[providers]]\nname = "p"\napi_base = "{address}"\n'
        f'[[mcp_servers]]\nname = "s"\ntransport = "http"\nurl = "{address}"\n'
    )

    with pytest.raises(InvalidConfigError) as raised:
        surroundings.load()

    told = f'must be an address such as https://host/v1, not "{address}"'
    assert [str(problem) for problem in raised.value.problems] == [
        f"{FILE}:3: providers[p].api_base: {told}",
        f"{FILE}:7: mcp_servers[s].url: {told}",
    ]
