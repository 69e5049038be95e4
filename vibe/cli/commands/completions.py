"""``vibe completions SHELL``: prints a script that completes commands, options and their values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path

from vibe.cli.environment import Arguments, CliEnvironment
from vibe.cli.grammar import ARGUMENTS, COMMANDS, GRAMMAR, PROMPT, SHELLS, below, spellings
from vibe.cli.parser import CommandLineError
from vibe.core.config.paths import VibePaths
from vibe.system.files import entries_of
from vibe.system.grouping import by_key

MOST = 100

_SAFE = re.compile(r"[\w.@:/+-]+", re.ASCII)
"""Names that shells take literally. Shells expand completions, so any other name has to be typed by hand."""


def names_of(kind: str, env: CliEnvironment) -> list[str]:
    """Return all names of a kind; of plans, sessions and runs, the latest come first."""
    paths = VibePaths(env.home)
    if kind in {"plans", "sessions"}:
        found = _latest(paths.plans if kind == "plans" else paths.sessions)
        names = [*found, "latest"] if found else []
    elif kind == "sources":
        from ipc.registry import LATEST, Registry  # noqa: PLC0415  as below

        running = Registry(env.home, env.runtime_dir).running()
        names = [*(entry.info.plan_id or entry.source for entry in reversed(running)), LATEST]
    elif kind == "library":
        from vibe.app.plan.library import named_plans  # noqa: PLC0415  as below

        names = list(named_plans(env, env.cwd, trust=False))
    else:
        names = _configured(kind, env)
    return [name for name in dict.fromkeys(names) if _SAFE.fullmatch(name) and name[0] != "-"][:MOST]


def _latest(folder: Path) -> list[str]:
    entries = [entry for entry in entries_of(folder) if entry.is_dir() and not entry.name.startswith(".")]
    return [entry.name for entry in sorted(entries, key=lambda entry: entry.stat().st_mtime, reverse=True)]


def _configured(kind: str, env: CliEnvironment) -> list[str]:
    from vibe.core.config.loader import ConfigRequest, load_config  # noqa: PLC0415  plans and sessions don't need it
    from vibe.core.config.presets import PRESETS  # noqa: PLC0415  as above

    loaded = load_config(ConfigRequest(home=env.home, workdir=env.cwd, environ=env.environ))
    if kind == "agents":
        from vibe.core.agents.manager import load_agents  # noqa: PLC0415  as above
        from vibe.core.agents.models import AgentType  # noqa: PLC0415  as above

        profiles = load_agents(loaded).profiles.values()
        return [profile.name for profile in profiles if profile.agent_type is not AgentType.SUBAGENT]
    if kind == "models":
        return [model.key for model in loaded.config.models]
    if kind == "providers":
        return [*(provider.name for provider in loaded.config.providers), *PRESETS]
    return [server.name for server in loaded.config.mcp_servers]


FILES = "files"
"""A kind that only fish needs; other shells offer files when nothing else matches."""
NAMED_BY_OPTION = {
    "--agent": "agents",
    "--attach": "sources",
    "--model": "models",
    "--provider": "providers",
    "--reuse": "plans",
    "--resume": "sessions",
}
NAMED_BY_OPERAND = {
    **dict.fromkeys(("plan", "plans"), ("plans",)),
    **dict.fromkeys(("plan:any", "one", "other"), ("plans", FILES)),
    **dict.fromkeys(("file", "plan:file"), ("library", FILES)),
    **dict.fromkeys(("session", "sessions"), ("sessions",)),
    **dict.fromkeys(("source", "source:answer", "run:shown"), ("sources",)),
    "name": ("servers",),
}
"""The kinds of names that an argument takes, by its key in the grammar."""
CALL = "@"
"""Marks a kind of names among literal words; the shell asks vibe for those names when it completes."""
PLACEHOLDER = re.compile(r"^ *# (VALUES|WORDS):.*$", re.MULTILINE)


def run(args: Arguments, env: CliEnvironment) -> None:
    """Print the completion script, or the names that the script asks for."""
    if args.names is not None:
        env.write_lines(names_of(args.names, env))
        return
    if args.shell is None:
        raise CommandLineError(f"SHELL is missing: choose from {', '.join(SHELLS)}")
    words, values = _known()
    if args.shell == "fish":
        env.stdout.write(_filled("fish", _fish(words, values)))
    else:
        opening = _text("zsh") if args.shell == "zsh" else ""
        env.stdout.write(opening + _filled("bash", _bash(words, values)))


def _text(shell: str) -> str:
    return resources.files("vibe.cli.commands").joinpath(f"completions.{shell}").read_text(encoding="utf-8")


def _filled(shell: str, known: Mapping[str, Sequence[str]]) -> str:
    """Return a shell's script with its placeholder comments replaced by the generated lines."""
    return PLACEHOLDER.sub(lambda found: "\n".join(known[found[1]]), _text(shell))


def _known() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return the words that may follow each command, and the words that may follow each option that takes a value.

    An option without such words takes a file or free text.
    """
    words: dict[str, list[str]] = {}
    values: dict[str, list[str]] = {}
    for line, command in {"": PROMPT, **GRAMMAR}.items():
        names = command.arguments.replace("|", " ").split()
        operands = [name for name in names if not name.startswith("-")]
        options = {option: ARGUMENTS[name] for name in names if name.startswith("-") for option in spellings(name)}
        choices = (word for one in operands for word in ARGUMENTS[one].get("choices", ()))
        kinds = dict.fromkeys(f"{CALL}{kind}" for one in operands for kind in NAMED_BY_OPERAND.get(one, ()))
        words[line] = [*(below(line) if line else COMMANDS), *choices, "-h", "--help", *options, *kinds]
        for option, argument in options.items():
            kind = NAMED_BY_OPTION.get(option)
            if argument.get("action", "append") == "append":
                values[f"{line} {option}"] = [*argument.get("choices", ())] or ([f"{CALL}{kind}"] if kind else [])
    words |= {"help": [*COMMANDS], **{f"help {name}": [*below(name)] for name in COMMANDS}}
    return words, values


def _grouped(values: Mapping[str, Sequence[str]]) -> Iterable[tuple[Sequence[str], list[str]]]:
    """Return sets of values, each with the options that take them."""
    return by_key((tuple(choices), line) for line, choices in values.items()).items()


def _bash(words: Mapping[str, Sequence[str]], values: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    chosen: list[str] = []
    for choices, lines in _grouped(values):
        patterns = "|".join(map('"{}"'.format, lines))
        chosen.append(f'            {patterns}) words="{_in_bash(choices)}"; break ;;')
    known = [f'            "{line}") words="{_in_bash(below)}" ;;' for line, below in words.items()]
    return {"WORDS": known, "VALUES": chosen}


def _in_bash(words: Sequence[str]) -> str:
    kept = (word for word in words if word != f"{CALL}{FILES}")
    return " ".join(f"$(_vibe_names {word[1:]})" if word.startswith(CALL) else word for word in kept)


def _fish(words: Mapping[str, Sequence[str]], values: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    chosen: list[str] = []
    for choices, lines in _grouped(values):
        chosen.append(f"            case {' '.join(map(repr, lines))}")
        chosen += [_printed(choices)] if choices else []
        chosen.append("                return")
    known = [f"            case '{line}'\n{_printed(below)}" for line, below in words.items()]
    return {"WORDS": known, "VALUES": chosen}


def _printed(words: Sequence[str]) -> str:
    fixed = [word for word in words if not word.startswith(CALL)]
    lines = [f"printf '%s\\n' {' '.join(fixed)}"] if fixed else []
    for kind in (word[1:] for word in words if word.startswith(CALL)):
        lines.append("__fish_complete_path (commandline -ct)" if kind == FILES else f"__vibe_names {kind}")
    return "\n".join(f"                {line}" for line in lines)
