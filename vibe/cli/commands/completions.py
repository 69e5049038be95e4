"""``vibe completions SHELL``: a script that has the shell complete commands and flags of ``vibe``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from vibe.cli.command_table import COMMANDS
from vibe.cli.commands.whole_parser import parser_of
from vibe.cli.environment import CliEnvironment

BASH = """\
# vibe: completion for bash; load it with: source <(vibe completions bash)
_vibe() {
    local words line="" word
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        [[ $word == -* ]] && break
        line="$line $word"
    done
    while :; do
        case "${line# }" in
%(cases)s
            *) line="${line%% *}"; continue ;;
        esac
        break
    done
    COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
    (( ${#COMPREPLY[@]} )) || COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o filenames -F _vibe vibe
"""
ZSH = """\
# vibe: completion for zsh; load it with: source <(vibe completions zsh)
autoload -U +X bashcompinit && bashcompinit
"""


def run(args: argparse.Namespace, env: CliEnvironment) -> int:
    """Print the script."""
    known = dict(_known())
    env.stdout.write(_fish(known) if args.shell == "fish" else (ZSH if args.shell == "zsh" else "") + _bash(known))
    return 0


def _known() -> Iterator[tuple[str, list[str]]]:
    """What may follow each command, by its words; the first is what may follow ``vibe`` itself."""
    yield "", [*COMMANDS, *parser_of(()).options()]
    for command in COMMANDS:
        for prog, words in parser_of((command,)).words_below():
            yield prog.removeprefix("vibe "), words


def _bash(known: dict[str, list[str]]) -> str:
    cases = (f'            "{line}") words="{" ".join(words)}" ;;' for line, words in known.items())
    return BASH % {"cases": "\n".join(cases)}


def _fish(known: dict[str, list[str]]) -> str:
    lines = ["# vibe: completion for fish; load it with: vibe completions fish | source", "complete -c vibe -e"]
    for line, words in known.items():
        seen = " ".join(f"__fish_seen_subcommand_from {word};" + " and" for word in line.split()).removesuffix(" and")
        condition = f"-n '{seen.rstrip(';')}'" if line else "-n __fish_use_subcommand"
        for word in words:
            option = (
                f"-l {word[2:]}"
                if word.startswith("--")
                else f"-s {word[1:]}"
                if word.startswith("-")
                else f"-f -a {word}"
            )
            lines.append(f"complete -c vibe {condition} {option}")
    return "\n".join(lines) + "\n"
