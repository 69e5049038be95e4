"""``vibe completions SHELL``: a script that has the shell complete commands, flags and their values."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence

from vibe.cli.command_table import COMMANDS
from vibe.cli.commands.whole_parser import parser_of
from vibe.cli.environment import CliEnvironment
from vibe.cli.parser import Parser

BASH = """\
# vibe: completion for bash; load it with: source <(vibe completions bash)
_vibe() {
    local words="" line="" word="" before="${COMP_WORDS[COMP_CWORD-1]}"
    for word in "${COMP_WORDS[@]:1:$((COMP_CWORD - 1))}"; do
        [[ $word == -* ]] && break
        line="$line $word"
    done
    while :; do
        case "${line# } $before" in
%(values)s
        esac
        case "${line# }" in
%(words)s
            *) line="${line%% *}"; continue ;;
        esac
        break
    done
    COMPREPLY=($(compgen -W "$words" -- "${COMP_WORDS[COMP_CWORD]}"))
}
complete -o default -F _vibe vibe
"""
ZSH = """\
# vibe: completion for zsh; load it with: source <(vibe completions zsh)
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
autoload -Uz +X bashcompinit && bashcompinit
"""
FISH = """\
# vibe: completion for fish; load it with: vibe completions fish | source
function __vibe_words
    set -l given (commandline -opc)
    set -l before $given[-1]
    set -l line
    for word in $given[2..-1]
        string match -q -- '-*' $word; and break
        set -a line $word
    end
    while true
        switch "$line $before"
%(values)s
        end
        switch "$line"
%(words)s
            case '*'
                set -e line[-1]
                continue
        end
        return
    end
end
function __vibe_offers
    if string match -q -- '-*' (commandline -ct)
        __vibe_words
    else
        __vibe_words | string match -v -- '-*'
    end
end
function __vibe_takes_file
    not __vibe_words | string match -qv -- '-*'
end
complete -c vibe -e
complete -c vibe -f -a '(__vibe_offers)'
complete -c vibe -n __vibe_takes_file -F
"""


def run(args: argparse.Namespace, env: CliEnvironment) -> int:
    """Print the script."""
    words, values = _known()
    if args.shell == "fish":
        env.stdout.write(_fish(words, values))
    else:
        env.stdout.write((ZSH if args.shell == "zsh" else "") + _bash(words, values))
    return 0


def _known() -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return the words that may follow each command, and each of its options that takes a value.

    No words after an option: a file, or anything.
    """
    words: dict[str, list[str]] = {}
    values: dict[str, list[str]] = {}
    for line, parser in _parsers():
        words[line] = [*(COMMANDS if not line else ()), *parser.own_words()]
        values |= {f"{line} {option}": choices for option, choices in parser.option_values().items()}
    words["help"] = list(COMMANDS)
    return words, values


def _parsers() -> Iterator[tuple[str, Parser]]:
    yield "", parser_of(())
    for command in COMMANDS:
        for parser in parser_of((command,)).parsers_below():
            yield parser.prog.removeprefix("vibe "), parser


def _grouped(values: Mapping[str, Sequence[str]]) -> Iterator[tuple[list[str], Sequence[str]]]:
    """The options that take the same values, together."""
    groups: dict[tuple[str, ...], list[str]] = {}
    for line, choices in values.items():
        groups.setdefault(tuple(choices), []).append(line)
    for choices, lines in groups.items():
        yield lines, choices


def _bash(words: Mapping[str, Sequence[str]], values: Mapping[str, Sequence[str]]) -> str:
    chosen: list[str] = []
    for lines, choices in _grouped(values):
        patterns = "|".join(map('"{}"'.format, lines))
        chosen.append(f'            {patterns}) words="{" ".join(choices)}"; break ;;')
    known = [f'            "{line}") words="{" ".join(below)}" ;;' for line, below in words.items()]
    return BASH % {"words": "\n".join(known), "values": "\n".join(chosen)}


def _fish(words: Mapping[str, Sequence[str]], values: Mapping[str, Sequence[str]]) -> str:
    chosen: list[str] = []
    for lines, choices in _grouped(values):
        chosen.append(f"            case {' '.join(map(repr, lines))}")
        chosen += [_printed(choices)] if choices else []
        chosen.append("                return")
    known = [f"            case '{line}'\n{_printed(below)}" for line, below in words.items()]
    return FISH % {"words": "\n".join(known), "values": "\n".join(chosen)}


def _printed(words: Sequence[str]) -> str:
    return f"                printf '%s\\n' {' '.join(words)}"
