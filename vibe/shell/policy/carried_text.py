"""Finds the shell text in a command's words: scripts, aliases, and programs that options and settings name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from vibe.shell.policy.option_parsing import by_name
from vibe.shell.policy.words import RUNS_ITS_ARGUMENTS, substitutions
from vibe.shell.policy.wrappers import RUNNERS, SHELLS, Words, name_of, starts_within

TEXT_OPTIONS = by_name({
    "bat, batcat, delta": "--pager", "sort": "--compress-program", "split": "--filter", "rg": "--pre --hostname-bin",
    "scp, sftp": "-S", "ssh": "-o", "nc, netcat": "-e -c", "ncat": "-e -c --exec --sh-exec", "tcpdump": "-z",
    "fc, gnome-terminal, konsole, alacritty, xterm": "-e", "cargo": "-x -s --exec --shell",
    "docker, podman": "--entrypoint", "sbatch": "--wrap",
    "vagrant, asciinema, chokidar, nix, script, flock": "-c --command", "nodemon": "-x --exec",
    "stap, bpftrace, rustup, sg, capsh": "-c", "fly, mapfile, readarray, complete, compgen": "-C", "just": "--command",
    "ansible": "-a", "hyperfine": "-p -s -c --prepare --setup --cleanup", "entr": "-s", "man": "-P --pager",
    "su, runuser": "-c --command --session-command", "nix-shell": "--run --command",
    "git": "-x --exec --extcmd --tree-filter --index-filter --msg-filter --env-filter -O --open-files-in-pager "
        "--upload-pack --receive-pack --smtp-server --sendmail-cmd --browser --tool --parent-filter --commit-filter "
        "--tag-name-filter --subdirectory-filter",
    "tar": "-I -F --to-command --use-compress-program --rsh-command --info-script --checkpoint-action",
    "rsync": "-e --rsh --rsync-path", "hash": "-p", "npx, npm": "-c --call", "sudo": "-s -i --shell --login",
})  # fmt: skip
"""Options whose value is shell text, by program."""

JOINS_ITS_WORDS = frozenset({"concurrently", "eval", "parallel", "watch", "sg", "hyperfine", "entr", "sem", "ssh"})
"""Programs that hand their words to a shell as one text."""

CARRIERS = frozenset({*SHELLS, *TEXT_OPTIONS, *JOINS_ITS_WORDS, "trap", "env", "alias", "bind"})

GIT_KEY = (
    r"(?i:alias\..*|pager\..*|.*(?:editor|sshcommand|askpass|proxy|fsmonitor|pager|cmd|program|external|helper|"
    r"textconv|clean|smudge|process|driver|command|tool|viewer|browser|\.path|hook|uploadpack|receivepack))"
)
GIT_RUNNING_KEY = re.compile(rf"(?:-c)?{GIT_KEY}=")
GIT_TOOLS = {"difftool": "-t", "mergetool": "-t", "web--browse": "-b", "clone": "-u"}
RUNNING_OPTION = re.compile(
    r"--?(?:[\w-]*-)?(?:command|cmd|exec|execute|program|pager|editor|shell|rsh|wrapper|"
    r"askpass|browser|invoke|eval|toolexec|vettool|TT|entrypoint|launcher|runner|Command)"
)
RUNNING_SETTING = re.compile(
    r"(?i:[\w.:-]*(?:editor|pager|browser|command|askpass|shell|wrapper|runner|launcher)|"
    r"(?:-[a-z]|[\w.:-]*[_.:-])?(?:visual|ssh|rsh|diff|lessopen|lessclose|cc|cxx|ld|program|cmd|opener|terminal|exec|"
    r"system|(?:pre|post)-invoke:*+|git_config_value_\d++))"
)
"""Names of settings and variables whose value is a program, as ``RUNNING_OPTION`` matches such options."""
OPTION_VARIABLE = re.compile(r".*(?:OPTIONS|OPTS|PARAMETERS)")
EVALUATING = frozenset({
    "[", "compgen", "complete", "declare", "export", "getopts", "let", "local", "mapfile", "printf",
    "read", "readarray", "readonly", "test", "typeset", "unset", "wait",
})  # fmt: skip
"""Builtins that evaluate the subscripts in their words."""


def texts(words: Words) -> Iterator[str]:
    """Yield the shell text that a command carries in its arguments."""
    program = name_of(words[0])
    if program not in CARRIERS:
        return
    known = [word for word in words[1:] if word is not None]
    if program in SHELLS:
        yield from _shell_text(known)
    elif program == "trap":
        yield from [word for word in known if word not in {"--", "-", "-p", "-l"}][:1]
    elif program == "env":
        yield from _split_string(known)
    elif program == "alias":
        yield from (word.partition("=")[2] for word in known)
    elif program == "bind":
        yield from (word.rpartition(":")[2].strip("\"' ") for word in known if ":" in word)
    elif program == "git":
        yield from _git_text(known)
    for option in TEXT_OPTIONS.get(program, "").split():
        yield from (text.removeprefix("exec=") for text in values_of(known, option))
    if program in JOINS_ITS_WORDS:
        yield from _joined_words(words, program)


def _shell_text(words: Sequence[str]) -> Iterator[str]:
    """Yield the text of ``-c TEXT``, even if ``c`` is in a cluster or ``--`` or other options stand between."""
    wanted = False
    index = 0
    while index < len(words):
        word = words[index]
        index += 1
        if word in {"-", "--"}:
            break
        if not word.startswith(("-", "+")):
            index -= 1
            break
        if word.startswith("--"):
            wanted |= word.startswith("--command")
            index += word in {"--rcfile", "--init-file"}
            if "=" in word and word.startswith("--command"):
                yield word.partition("=")[2]
        else:
            wanted |= bool(set(word) & {"c", "C"}) and word.startswith("-")
            index += word.count("o") + word.count("O")
    if wanted:
        # The word before may be an option's value or the text, so both are read.
        yield from words[max(index - 1, 0) : index + 1]
        if any(RUNS_ITS_ARGUMENTS.search(word) for word in words[index : index + 1]):
            yield " ".join(words[index + 1 :])
            yield " ".join(words[index + 2 :])


def _split_string(words: Sequence[str]) -> Iterator[str]:
    for index, word in enumerate(words):
        short = re.match(r"-[i0v]*S", word)
        if short:
            yield " ".join(("env", word[short.end() :], *words[index + 1 :]))
        elif word.startswith("--s"):
            yield " ".join(("env", word.partition("=")[2], *words[index + 1 :]))


def _git_text(words: Sequence[str]) -> Iterator[str]:
    """Yield aliases, programs named in settings, and what ``bisect run`` and ``submodule foreach`` run."""
    seen: set[str] = set()
    for index, word in enumerate(words):
        if word in seen:
            continue  # the words after it were read at its first occurrence
        if GIT_RUNNING_KEY.match(word):
            yield _setting_text(*word.removeprefix("-c").split("=", 1))
        elif word.startswith("!"):
            yield word[1:]
        elif word in GIT_TOOLS:
            seen.add(word)
            yield from values_of(words[index + 1 :], GIT_TOOLS[word])
        elif word == "config":
            seen.add(word)
            yield from _git_setting(words[index + 1 :])
        elif word.startswith("ext::"):
            yield word.removeprefix("ext::")
        elif word in {"run", "foreach"}:
            yield " ".join(rest for rest in words[index + 1 :] if not rest.startswith("--"))


def _given_to_parallel(words: Words, starts: Sequence[int]) -> Iterator[str]:
    """Yield the words after ``:::`` if they are the commands, or are put in the command's place."""
    given = next((index for index, word in enumerate(words) if word and re.fullmatch(r":::\+?", word)), len(words))
    if not starts or any(start >= given or (words[start] or "").startswith("{") for start in starts):
        yield from (word for word in words[given:] if word is not None)


def _git_setting(words: Sequence[str]) -> Iterator[str]:
    """Yield the programs that ``git config KEY VALUE`` names."""
    for key, value in pairwise(words):
        if re.fullmatch(GIT_KEY, key) and not value.startswith("-"):
            yield _setting_text(key, value)


def _setting_text(key: str, value: str) -> str:
    """Return the shell text that a setting of git stands for. An alias without ``!`` is a command of git."""
    is_command = key.lower().startswith("alias.") and not value.startswith("!")
    return f"git {value}" if is_command else value.removeprefix("!")


def likely_texts(words: Words) -> Iterator[str]:
    """Yield what may be shell text or a program in the options and settings of any command."""
    program = name_of(words[0])
    if program in {"echo", "grep", "egrep", "fgrep"}:
        return
    known = [word or "" for word in words[1:]]
    configures = "config" in known
    for word, after in pairwise([*known, ""]):
        name, equals, value = word.partition("=")
        if RUNNING_OPTION.fullmatch(name) or (configures and RUNNING_SETTING.fullmatch(word)):
            yield value if equals else after
        elif equals:
            yield from setting_texts(name, value.strip("\"'"))
        elif setting := re.match(r"(?:-o)?(\w+Command)\s+(.*)", word):
            yield setting[2]
        elif program == "socat" and (run := re.match(r"(?i)(?:EXEC|SYSTEM):([^,]*)", word)):
            yield run[1]


def setting_texts(name: str, value: str) -> Iterator[str]:
    """Yield the programs that a setting or variable makes others run."""
    if RUNNING_SETTING.fullmatch(name):
        yield value.lstrip("|-! ")
    elif OPTION_VARIABLE.fullmatch(name):
        parts = ("", *(part.strip("\"'") for part in value.split()))
        yield from likely_texts(tuple(part for part in parts if not OPTION_VARIABLE.match(part.partition("=")[0])))


def evaluated_texts(words: Words) -> Iterator[str]:
    """Yield the substitutions that the shell runs in subscripts of names."""
    if name_of(words[0]) in EVALUATING:
        for word in words[1:]:
            yield from substitutions(word or "")


def values_of(words: Sequence[str], option: str) -> Iterator[str]:
    """Yield the possible values of an option: the next word, or the text attached to it."""
    for index, word in enumerate(words):
        if option.startswith("--"):
            name, equals, value = word.partition("=")
            if len(name) > 3 and option.startswith(name):
                yield value if equals else "".join(words[index + 1 : index + 2])
        elif re.match(r"-\w", word) and option[1] in word:
            yield word[word.index(option[1]) + 1 :] or "".join(words[index + 1 : index + 2])


def _joined_words(words: Words, program: str) -> Iterator[str]:
    """Yield the words joined to one text, from each position where the command may start."""
    if program in RUNNERS:
        starts = list(starts_within(words, 0, RUNNERS[program], set()))
    else:
        plain = [index for index in range(1, len(words)) if not (words[index] or "").startswith("-")]
        starts = plain[: 2 if program == "sg" else 1]
    if program in {"concurrently", "hyperfine"}:
        yield from (word for word in words[1:] if word is not None)
    elif program == "parallel":
        yield from _given_to_parallel(words, starts)
    for start in starts:
        yield " ".join(word for word in words[start:] if word is not None)
