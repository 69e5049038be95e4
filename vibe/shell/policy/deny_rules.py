"""Finds programs on the deny list, and those that act as another user, even inside wrappers and scripts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import Enum
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import groupby
from operator import itemgetter
from typing import TypeAlias

from msgspec import Struct

from vibe.shell.policy.carried_text import evaluated_texts, likely_texts, setting_texts, texts, values_of
from vibe.shell.policy.interpreters import RECIPES, SCRIPTED, commands_in, commands_in_recipes, commands_in_sed
from vibe.shell.policy.parser import parse_line
from vibe.shell.policy.read_only_commands import READERS
from vibe.shell.policy.words import TOO_COMPLEX, Patience, ShellCommand, ShellLine, decoded, known
from vibe.shell.policy.wrappers import (
    MAX_POSITIONS,
    SHELLS,
    Words,
    name_of,
    positions,
    runner_of,
    unversioned,
    without_git_options,
)

PLAIN_NAMES = """
chgrp chmod chown cp dd fallocate install link ln mkdir mkfifo mknod mktemp mv rm rmdir shred sync tee touch truncate
unlink rename rsync scp split csplit patch zip gzip gunzip bzip2 bunzip2 xz unxz zstd ar cpio open xdg-open code
dos2unix unix2dos iconv pr look ptx ldd nm objdump readelf size strip zgrep bzcat xzcat ag ack locate updatedb apropos
man info whatis tldr cloc tokei scc delta trash exa eza lsd dust ncdu procs sd choose mdcat glow pandoc convert magick
ffmpeg apk apt apt-cache apt-get apt-mark aptitude brew choco dnf emerge nix-env pacman port rpm winget yay yum zypper
conan vcpkg pip2 nvm volta fnm bower lerna nx turbo gem bundler rake rails composer rustc go gofmt mvn gradle gradlew
ant sbt lein mix rebar3 stack cabal dotnet nuget msbuild swift xcodebuild pod flutter dart bazel buck ctest meson
ninja gmake just task scons cc c++ clang-format clang-tidy ld jar kotlinc tsc esbuild vite webpack rollup parcel swc
babel alembic bandit biome black coverage cypress django-admin eslint flake8 flask gofumpt golangci-lint hadolint
isort jest karma mocha nox phpunit playwright pre-commit prettier pylint pyright pytest rspec rubocop semgrep
shellcheck shfmt sphinx-build mkdocs stylelint tox vitest yamllint py.test uvicorn gunicorn celery manage.py locust gh
glab hub hg svn jj git-lfs gitk buildah skopeo helm kustomize kind minikube k3d k9s terraform tofu terragrunt packer
vault consul nomad pulumi ansible-playbook aws az gcloud gsutil doctl fly flyctl vercel netlify wrangler firebase
supabase http https httpie ssh-keygen ssh-add ssh-copy-id ping dig nslookup host nc ifconfig lsof traceroute whois
openssl gpg age redis-cli mongo mongosh pg_dump pg_restore createdb dropdb mysqldump duckdb systemctl journalctl
service loginctl crontab useradd usermod groupadd passwd mount umount kill killall pkill renice dmesg sysctl modprobe
lsmod lsblk blkid fdisk iostat vmstat who w last notify-send say pbcopy xclip wl-copy yq dasel xmllint protoc buf
openapi-generator jupyter streamlit vibe cd pushd popd dirs export local declare typeset readonly unset set shift
return exit read let wait hash alias unalias shopt help mapfile readarray complete compgen compopt getopts bind fg bg
disown logout enable caller break continue source then do done fi else esac
"""
PLAIN_PROGRAMS = frozenset({*(name.split()[0] for name in READERS), *PLAIN_NAMES.split()})
"""Known programs that aren't wrappers: for files, builds, checks and services, and builtins of the shell.

A few of them run others when given certain words. ``wrappers`` knows those.
"""


class Feed(Enum):
    """The way a program uses its input."""

    SHELL = "shell text"
    TABLE = "a table of jobs"
    SCRIPT = "a program text"
    RECIPES = "rules of a makefile"


INPUT_NAMES = re.compile(r"-|/dev/(?:stdin|null|fd/\d+)|/proc/self/fd/\d+|/proc/\d+/fd/\d+")
"""Names for the input a line feeds to a program. ``/dev/null`` stands for a process substitution."""
WRAPPING = frozenset({"env", "nice", "nohup", "setsid", "command", "exec", "timeout", "stdbuf", "sudo", *SHELLS})
JOB_TIME = re.compile(r"^[^\S\n]*+(?:@\w++|(?:[\d*,/-]++[^\S\n]++){5})[^\S\n]*+", re.MULTILINE)


def uses_of_input(words: Words, *, fed: bool) -> Iterator[Feed]:
    """Yield the uses that a command may make of the input it is fed."""
    program = _plain_name(words[0])
    rest = [word or "" for word in words[1:]]
    operands = [word for word in rest if not word.startswith(("-", "+")) or word == "-"]
    takes_input = not operands or any(INPUT_NAMES.fullmatch(word) for word in operands)
    if (
        (program in SHELLS and (takes_input or "-s" in rest))
        or (program in {".", "source"} and operands and INPUT_NAMES.fullmatch(operands[0]))
        or program in {"at", "batch", "parallel"}
        or (program == "xargs" and _runs_what_it_reads(words))
        or (program == "ssh" and fed and len(operands) == 1)
    ):
        yield Feed.SHELL
    elif program == "crontab" and takes_input:
        yield Feed.TABLE
    elif program in RECIPES and ((fed and rest[-1:] == ["-f"]) or any(INPUT_NAMES.fullmatch(word) for word in rest)):
        yield Feed.RECIPES
    elif (program in SCRIPTED or program == "sed") and (takes_input or program in {"ed", "ex"}):
        yield Feed.SCRIPT


def _runs_what_it_reads(words: Words) -> bool:
    """Return whether ``xargs`` takes the name of a program, or a script, from its input."""
    starts = positions(words)
    last = starts[-1]
    inner = words[last:]
    program = name_of(inner[0])
    if program in SHELLS or program in {"{}", "%", "@"}:
        return True
    return len(positions(inner)) == 1 and (last == 0 or program in WRAPPING)


def fed_texts(line: ShellLine, feed: Feed) -> Iterator[str]:
    """Yield the shell text that a line may feed to a program with this use of its input."""
    for text in _inputs(line):
        if feed is Feed.SCRIPT:
            yield from commands_in(text)
            yield from commands_in_sed(text)
        elif feed is Feed.RECIPES:
            yield from commands_in_recipes(text)
        else:
            yield JOB_TIME.sub("", text) if feed is Feed.TABLE else text


def _inputs(line: ShellLine) -> Iterator[str]:
    yield from line.fed_texts
    for command in line.commands:
        if command.argv[:1] in {("echo",), ("printf",)}:
            words = [decoded(word.likely) for word in command.words[1:] if not word.likely.startswith("-")]
            yield " ".join(words)
            yield " ".join(words[1:])


def guessed_texts(words: Words, line: ShellLine) -> Iterator[str]:
    """Yield the shell text that a command may run, guessed from its words where its options aren't known."""
    program = name_of(words[0])
    yield from evaluated_texts(words)
    yield from likely_texts(words)
    yield from _script_texts(_plain_name(words[0]), [word for word in words[1:] if word is not None])
    if program in line.passing:
        yield from _suffixes(words)
    elif program not in line.functions and _is_unknown_wrapper(words[0]):
        yield from _wrapped(words)
    elif "/" in (words[0] or "") and "--" in words:
        yield " ".join(word for word in words[list(words).index("--") + 1 :] if word is not None)


def _plain_name(word: str | None) -> str:
    """Return the name of a program without its folder and version."""
    program = name_of(word)
    return program if program in SCRIPTED or program in SHELLS else unversioned(program) or program


def _script_texts(program: str, words: Sequence[str]) -> Iterator[str]:
    values = tuple(word.partition("=")[2] for word in words if re.match(r"(?:-v)?\w+=", word))
    for word in words:
        if program in SCRIPTED:
            yield from commands_in(word, values)
        elif program == "sed":
            yield from commands_in_sed(word.removeprefix("--expression="))
        elif program in RECIPES:
            yield from commands_in_recipes(word.removeprefix("--eval="))


def _is_unknown_wrapper(first: str | None) -> bool:
    """Return whether a program may be a wrapper we don't know: a plain name that is in none of the tables."""
    program = name_of(first)
    if not first or "/" in first or not re.fullmatch(r"[a-z][\w.+-]*", program):
        return False
    names = {program, unversioned(program)}
    return not any(names & table for table in (PLAIN_PROGRAMS, SCRIPTED, SHELLS)) and not any(map(runner_of, names))


def _wrapped(words: Words) -> Iterator[str]:
    """Yield each word that may be shell text, and the words from each plain word on, joined."""
    yield from (word for word in words[1:] if word and re.search(r"[\s;|&]", word))
    yield from _suffixes(words)


def _suffixes(words: Words) -> Iterator[str]:
    for start in range(1, min(len(words), MAX_SUFFIX_STARTS)):
        word = words[start]
        if word and re.fullmatch(r"[\w./+-]+", word) and not word.startswith("-"):
            yield " ".join(rest for rest in words[start:] if rest is not None)


MAX_SUFFIX_STARTS = 24
"""The first words of a command, from each of which the rest is read as a command of its own."""


def runs_unknown(words: Words) -> bool:
    """Return whether a command runs, as a program or a script, text that is known only at run time."""
    program, unknown = name_of(words[0]), any(word is None for word in words)
    return (
        words[0] is None
        or (unknown and program in {"eval", "source", ".", *SHELLS})
        or any(word is not None and word.startswith("--config-env") for word in words)
    )


def held_values(line: ShellLine) -> Iterator[str]:
    """Yield the values of the variables and positional parameters that the line sets."""
    yield from (value for _, value in line.assigned)
    for _, members in groupby(line.assigned, itemgetter(0)):
        yield " ".join(value for _, value in members)  # those of an array come one by one
    yield from _inputs(line)
    for command in line.commands:
        if command.argv[:1] == ("set",) or command.argv[:2] == ("printf", "-v"):
            yield from _suffixes(command.argv)


MAX_DEPTH = 5
"""Maximum depth to which scripts within scripts are read."""
MAX_GROWTH = 5
SPARE_TEXT = 4_000
"""Scripts are read up to ``MAX_GROWTH`` times the length of their line plus ``SPARE_TEXT``, in characters."""
MAX_BRACES = 64
"""Maximum number of words made by expanding the braces of one word."""
MAX_PATTERN = 64
"""Maximum length, in characters, of a pattern that is compared with names. A longer one is assumed to match."""

TOO_DEEP = "its scripts are nested too deeply to check"

SWITCHES_USER = frozenset({
    "calife", "capsh", "chpst", "doas", "gksu", "gksudo", "gosu", "kdesu", "kdesudo", "machinectl", "newgrp",
    "newuidmap", "pkexec", "run0", "runuser", "s6-setuidgid", "setuidgid", "sg", "su", "su-exec", "sudo", "sudo-rs",
    "sudoedit", "sux",
})  # fmt: skip
SWITCHES_USER_WITH = {
    "setpriv": re.compile(r"(?s)--(?:re?[ug]|ru|rg|eu|eg|gr|init-g|cl|k).*"),
    "chroot": re.compile(r"(?s)--[ug].*"),
    **dict.fromkeys(("nsenter", "unshare"), re.compile(r"(?s)-[^-]*[SG].*|--setu.*|--setg.*")),
    "start-stop-daemon": re.compile(r"(?s)-[^-]*[cg].*|--(?:chu|g).*"),
    "systemd-run": re.compile(r"(?s)--ui.*|--gi.*|-[^-]*p.*|--pr.*|-[^-]*M.*|--ma.*"),
}
"""Programs that act as another user when given one of these options."""

ADDS_WORDS = frozenset({"parallel", "sem", "xargs"})
"""Programs that add words of their input to the command they run, or put them in the place of a ``PLACEHOLDER``."""
PLACEHOLDER = re.compile(r"\W+")
PLAIN_WORD = re.compile(r"[\w./+-]+")

AMBIGUOUS = frozenset({"screen", "top", "view"})
"""Programs whose names are also everyday words, so they are denied only where a program is surely meant."""

PAGERS = frozenset({"less", "more"})
SHOWS_A_FILE = re.compile(r"\s*(?:less|more)(?:\s+-[A-Za-z]+)*\s+[\w./][\w./-]*\s*")
"""A line that only runs a pager on a file. Without a terminal the pager prints the file and ends."""

INTERACTIVE_FLAG = re.compile(r"-[ilq]+|--login|--interactive|--norc|--noprofile")
SAME_OPTION = {"--force": "f", "--recursive": "r", "-R": "r", "--delete": "d", "--remove": "d"}
"""Other spellings of the options that deny lists mostly name."""

Entries: TypeAlias = "frozenset[tuple[str, ...]]"


class Inspection(Struct, frozen=True, kw_only=True):
    """Reasons why a line must never run, and why a person must approve it each time; blank if there is none."""

    denied: str = ""
    each_time: str = ""


@lru_cache(maxsize=256)
def inspect(line: str, denied: Entries, standalone: frozenset[str]) -> Inspection:
    """Look at every command that a line could run. The work grows no faster than the length of the line."""
    parsed = parse_line(line)
    if SHOWS_A_FILE.fullmatch(line):
        standalone -= PAGERS
    inspector = _Inspector(denied, standalone, line)
    if parsed.opaque:
        return inspector.judge_unreadable(parsed.opaque)
    inspector.inspect(parsed, *([parse_line(line.replace("\\\n", ""))] if "\\\n" in line else []))
    if inspector.opaque and not inspector.denied:
        return inspector.judge_unreadable(inspector.opaque, each_time=True)
    return Inspection(denied=inspector.denied, each_time=_other_user_reason(inspector.user_switch))


def _other_user_reason(program: str) -> str:
    return f"{program!r} acts as another user" if program else ""


class _Inspector:
    """Goes through a line and the scripts in it, reading each text once, and notes the first finding of each kind."""

    def __init__(self, entries: Entries, standalone: frozenset[str], line: str) -> None:
        self._entries: dict[str, list[tuple[str, ...]]] = {}
        for entry in entries:
            program = name_of(entry[0]) if entry[0].startswith("/") else entry[0]
            self._entries.setdefault(program, []).append(entry)
        self._standalone = standalone
        self._seen: set[tuple[str, bool]] = set()
        self._remaining = MAX_GROWTH * len(line) + SPARE_TEXT
        self._line_words = frozenset(PLAIN_WORD.findall(line))
        self._patience = Patience()
        self.denied = ""
        self.user_switch = ""
        self.opaque = ""

    def judge_unreadable(self, why: str, *, each_time: bool = False) -> Inspection:
        """Judge a line that can't be read fully by the plain words in it."""
        words = set(map(name_of, self._line_words))
        user_switch = next(iter(sorted(words & SWITCHES_USER)), "")
        listed = next(iter(sorted(words & self._entries.keys())), "")
        if listed:
            why = f"{why}, and {listed!r} is in it"
        return Inspection(each_time=_other_user_reason(user_switch) or (why if listed or each_time else ""))

    def inspect(self, *lines: ShellLine) -> None:
        """Look at all commands in the lines. Stop at a denial, or once there is too much to read."""
        pending = [(line, 0, True) for line in lines]
        while pending:
            current, depth, sure = pending.pop()
            for text, certain in self._texts(current, sure=sure):
                inner = self._script(text, depth, sure=certain)
                if self.denied or self.opaque:
                    return
                if inner is not None:
                    pending.append((inner, depth + 1, certain))
            if self.denied or self.opaque:
                return

    def _texts(self, line: ShellLine, *, sure: bool) -> Iterator[tuple[str, bool]]:
        """Judge the commands of a line and those they run.

        Yield each shell text the line carries, and whether it is certain to be shell text.
        """
        feeds: dict[Feed, None] = {}
        readings = {(words, command.fed): None for command in line.commands for words in _readings(command)}
        runs_values = False
        for words, fed in readings:
            if self._patience.is_over():
                self.opaque = TOO_COMPLEX
                return
            starts = positions(words)
            if len(starts) > MAX_POSITIONS:
                self.opaque = "its programs are nested too deeply to check"
                return
            for start in starts:
                inner = words[start:]
                if any(name_of(words[before]) in ADDS_WORDS for before in starts if before < start):
                    inner = (*(None if PLACEHOLDER.fullmatch(word or "-") else word for word in inner), None)
                self._judge(inner, fed=fed, sure=sure)
                feeds.update(dict.fromkeys(uses_of_input(inner, fed=fed)))
                runs_values = runs_values or runs_unknown(inner)
                yield from ((text, sure) for text in texts(inner))
                if self._remaining >= 0:
                    yield from ((text, False) for text in guessed_texts(inner, line))
        if runs_values:
            yield from ((text, False) for text in held_values(line))
        yield from ((text, sure) for text in line.nested)
        yield from ((text, sure) for name, value in line.assigned for text in setting_texts(name, value))
        for feed in feeds:
            yield from ((text, sure and feed is Feed.SHELL) for text in fed_texts(line, feed))

    def _script(self, text: str, depth: int, *, sure: bool) -> ShellLine | None:
        """Parse shell text. None if it was read before, or if there is too much to read.

        In the latter case the whole line becomes opaque, provided the text is certain to be shell text.
        """
        if not text or text.isspace() or (text, sure) in self._seen:
            return None
        self._remaining -= len(text)
        if self._remaining < 0:
            self.opaque = TOO_DEEP if sure else self.opaque
            return None
        if self._patience.is_over():
            self.opaque = TOO_COMPLEX
            return None
        self._seen.add((text, sure))
        inner = parse_line(text)
        if depth == MAX_DEPTH or inner.opaque:
            self.opaque = TOO_DEEP if sure else self.opaque
            return None
        return inner

    def _judge(self, words: Words, *, fed: bool, sure: bool) -> None:
        first = words[0]
        if not first:
            return
        program = name_of(first)
        if not sure and program in AMBIGUOUS:
            return
        entries = [entry for name in {first, program, unversioned(program)} for entry in self._entries.get(name, ())]
        denying = [entry for entry in entries if _matches_entry(self._completed(words, entry), entry)]
        if denying:
            self.denied = self.denied or f"{' '.join(denying[0])!r} is on the deny list"
        elif sure and self._standalone & {program, unversioned(program)} and _waits_for_typing(words, fed=fed):
            waits = f"{program!r} would wait for someone to type; give it a script, a file or -c"
            self.denied = self.denied or waits
        if not sure and program not in {"sudo", "doas", "pkexec"}:
            return
        options = SWITCHES_USER_WITH.get(program)
        if (
            program in SWITCHES_USER
            or _may_switch_user(program)
            or (options and any(options.fullmatch(word) for word in words if word is not None))
        ):
            self.user_switch = self.user_switch or program

    def _completed(self, words: Words, entry: tuple[str, ...]) -> Words:
        """Return a command with the words of an entry that the line holds in place of those known only at run time.

        They may be those: ``x=push; git $x``, ``echo push | xargs git``.
        """
        held = [word for word in entry[1:] if word in self._line_words]
        return [part for word in words for part in (held if word is None else [word])]


def _readings(command: ShellCommand) -> Iterator[Words]:
    """Yield the words of a command as written, with guesses for the unknown ones, and with braces expanded."""
    words = tuple(word.text for word in command.words)
    yield words
    if any(word.text is None and word.guess for word in command.words):
        guessed = tuple(word.likely or word.text for word in command.words)
        yield guessed
        first = (guessed[0] or "").split()
        if len(first) > 1:
            yield (*first, *guessed[1:])
    if any(word.pattern and word.text and "{" in word.text for word in command.words):
        yield tuple(
            text
            for word in command.words
            for text in (_braces(word.text) if word.pattern and word.text else [word.text])
        )


def _braces(text: str) -> list[str]:
    """Expand ``a{b,c}`` to ``ab`` and ``ac``. Beyond ``MAX_BRACES`` words, the rest stays unexpanded."""
    pending = [text]
    done: list[str] = []
    while pending and len(pending) + len(done) <= MAX_BRACES:
        current = pending.pop(0)
        inner = re.search(r"\{([^{},]*+,[^{}]*+)\}", current)
        if inner is None:
            done.append(current)
            continue
        pending[:0] = [current[: inner.start()] + part + current[inner.end() :] for part in inner[1].split(",")]
    return [word for word in (*done, *pending) if word]


def _matches_entry(words: Words, entry: tuple[str, ...]) -> bool:
    """Return whether a command matches an entry of the deny list, however its options are written."""
    if name_of(words[0]) == "git":
        words = without_git_options(words)
    if known(words)[1 : len(entry)] == entry[1:]:
        return True
    operands = [word for word in entry[1:] if not word.startswith("-")]
    options = [word for word in entry[1:] if word.startswith("-")]
    if not options:
        return _begins_with_operands([word for word in words[1:] if word is not None], operands)
    given = [word for word in words[1:] if word is not None]
    valued = len(options) == 1 and re.fullmatch(r"-\w", options[0]) and entry[-1] != options[0]
    if valued:  # python -m pdb
        return entry[entry.index(options[0]) + 1] in values_of(given, options[0])
    return _begins_with_operands(given, operands) and all(_has_option(given, option) for option in options)


def _begins_with_operands(words: Sequence[str], operands: Sequence[str]) -> bool:
    """Return whether the operands among the words begin with these.

    The word after an option may be its value or an operand, so both readings are tried.
    """
    states = {(0, False)}  # the operands found, and whether this word comes after an option
    for word in words:
        states = {
            state
            for found, free in states
            for state, holds in (
                ((found, True), word.startswith("-")),
                ((found, False), free or found == len(operands)),
                ((found + 1, False), operands[found : found + 1] == [word]),
            )
            if holds
        }
    return any(found == len(operands) for found, _ in states)


def _has_option(words: Sequence[str], option: str) -> bool:
    """Return whether an option is among the words: all its letters, its long name, or an abbreviation of that."""
    if option.startswith("--"):
        names = {word.partition("=")[0] for word in words}
        if any(len(name) > 2 and option.startswith(name) for name in names):
            return True
        return option in SAME_OPTION and _has_option(words, f"-{SAME_OPTION[option]}")
    letters = {letter for word in words if re.match(r"-\w", word) for letter in word[1:]}
    letters |= {
        short
        for name, short in SAME_OPTION.items()
        for word in words
        if word == name or (len(word) > 3 and name.startswith(word))
    }
    return all(letter in letters or (letter in "rR" and letters & {"r", "R"}) for letter in option[1:])


def _may_switch_user(name: str) -> bool:
    """Return whether a pattern may expand to a program that acts as another user."""
    if not re.search(r"[*?\[]", name) or not re.search(r"\w", name):
        return False
    return len(name) > MAX_PATTERN or any(fnmatchcase(program, name) for program in SWITCHES_USER)


def _waits_for_typing(words: Words, *, fed: bool) -> bool:
    if words[0] is not None and name_of(words[0]) in PAGERS:
        return True
    if fed or any(word is None for word in words):
        return False
    rest = [word for word in words[1:] if word is not None and not INTERACTIVE_FLAG.fullmatch(word)]
    if name_of(words[0]) == "ssh":
        return len([word for word in rest if not word.startswith("-")]) < 2 and "-V" not in rest
    return not rest
