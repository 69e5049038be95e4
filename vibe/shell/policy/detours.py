"""Detours by which a program may run: fed to a shell, in a text of another language, by an unknown wrapper."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import Enum

from vibe.shell.policy.carried_text import evaluated_texts, likely_texts
from vibe.shell.policy.interpreters import RECIPES, SCRIPTED, commands_in, commands_in_recipes, commands_in_sed
from vibe.shell.policy.parser import ShellLine
from vibe.shell.policy.read_only_commands import READERS
from vibe.shell.policy.words import decoded
from vibe.shell.policy.wrappers import SHELLS, Words, name_of, positions, runner_of, unversioned

BY_NAME = """
chgrp chmod chown cp dd fallocate install link ln mkdir mkfifo mknod mktemp mv rm rmdir shred sync tee touch truncate
unlink rename rsync scp sftp split csplit patch zip gzip gunzip bzip2 bunzip2 xz unxz zstd 7z ar cpio open xdg-open
code dos2unix unix2dos iconv pr look ptx ldd nm objdump readelf size strip zgrep bzcat xzcat ag ack locate updatedb
apropos man info whatis tldr cloc tokei scc delta trash exa eza lsd dust ncdu procs sd choose mdcat glow pandoc
convert magick ffmpeg apk apt apt-cache apt-get apt-mark aptitude brew choco dnf emerge flatpak nix-env pacman port
rpm snap winget yay yum zypper conan vcpkg pip2 pipx poetry pdm uvx hatch rye pixi conda mamba pyenv rbenv nvm volta
fnm asdf mise pnpm yarn bower lerna nx turbo gem bundle bundler rake rails composer cargo rustup rustc go gofmt mvn
gradle gradlew ant sbt lein mix rebar3 stack cabal dotnet nuget msbuild swift xcodebuild pod flutter dart bazel buck
ctest meson ninja gmake just task scons cc c++ clang-format clang-tidy ld jar kotlinc tsc esbuild vite webpack rollup
parcel swc babel alembic bandit biome black coverage cypress django-admin eslint flake8 flask gofumpt golangci-lint
hadolint isort jest karma mocha nox phpunit playwright pre-commit prettier pylint pyright pytest rspec rubocop semgrep
shellcheck shfmt sphinx-build mkdocs stylelint tox vitest yamllint py.test uvicorn gunicorn celery manage.py locust gh
glab hub hg svn jj git-lfs gitk docker-compose podman nerdctl buildah skopeo kubectl oc helm kustomize kind minikube
k3d k9s terraform tofu terragrunt packer vault consul nomad pulumi ansible-playbook aws az gcloud gsutil doctl heroku
fly flyctl vercel netlify wrangler firebase supabase http https httpie ssh ssh-keygen ssh-add ssh-copy-id ping dig
nslookup host nc ip ifconfig lsof traceroute whois openssl gpg age redis-cli mongo mongosh pg_dump pg_restore createdb
dropdb mysqldump psql mysql duckdb systemctl journalctl service loginctl crontab useradd usermod groupadd passwd mount
umount kill killall pkill renice dmesg sysctl modprobe lsmod lsblk blkid fdisk iostat vmstat who w last notify-send
say pbcopy xclip wl-copy yq dasel xmllint protoc buf openapi-generator jupyter streamlit vibe [ [[ cd pushd popd dirs
export local declare typeset readonly unset set shift return exit read let wait hash alias unalias shopt help mapfile
readarray complete compgen compopt getopts bind fg bg disown logout enable caller break continue : . source then do
done fi else esac
"""
PLAIN_PROGRAMS = frozenset({*(entry.split()[0] for entry in READERS), *BY_NAME.split()})
"""By name: of files, builds, checks, services, and the shell. A few do run others by certain words; those are told in
``wrappers``."""


class Feed(Enum):
    """The use that a program makes of its input."""

    SHELL = "shell text"
    TABLE = "a table of jobs"
    SCRIPT = "a program text"
    RECIPES = "rules of a makefile"
    VALUES = "values that are run later"


FED = re.compile(r"-|/dev/(?:stdin|null|fd/\d+)|/proc/self/fd/\d+|/proc/\d+/fd/\d+")
"""Names of what a line feeds; ``/dev/null`` stands for a process substitution."""
WRAPPING = frozenset({"env", "nice", "nohup", "setsid", "command", "exec", "timeout", "stdbuf", "sudo", *SHELLS})
READING = frozenset({"mapfile", "read", "readarray"})
JOB_TIME = re.compile(r"^[^\S\n]*+(?:@\w++|(?:[\d*,/-]++[^\S\n]++){5})[^\S\n]*+", re.MULTILINE)


def taken_from_input(words: Words, *, fed: bool) -> Iterator[Feed]:
    """Yield what the program may take what it is fed for."""
    program = _plain_name(words[0])
    rest = [word or "" for word in words[1:]]
    operands = [word for word in rest if not word.startswith(("-", "+")) or word == "-"]
    takes_input = not operands or any(FED.fullmatch(word) for word in operands)
    if (
        (program in SHELLS and (takes_input or "-s" in rest))
        or (program in {".", "source"} and operands and FED.fullmatch(operands[0]))
        or program in {"at", "batch", "parallel"}
        or (program == "xargs" and _runs_what_it_reads(words))
        or (program == "ssh" and fed and len(operands) == 1)
    ):
        yield Feed.SHELL
    elif program == "crontab" and takes_input:
        yield Feed.TABLE
    elif program in RECIPES and ((fed and rest[-1:] == ["-f"]) or any(FED.fullmatch(word) for word in rest)):
        yield Feed.RECIPES
    elif (program in SCRIPTED or program == "sed") and (takes_input or program in {"ed", "ex"}):
        yield Feed.SCRIPT
    if program in READING:
        yield Feed.VALUES


def _runs_what_it_reads(words: Words) -> bool:
    """Return whether ``xargs`` takes the name of a program, or a script, from what it reads."""
    starts = positions(words)
    last = starts[-1]
    inner = words[last:]
    known = name_of(inner[0])
    if known in SHELLS or known in {"{}", "%", "@"}:
        return True
    return len(positions(inner)) == 1 and (last == 0 or known in WRAPPING)


def fed_texts(line: ShellLine, feed: Feed) -> Iterator[str]:
    """Yield what a line may feed to such a program, as shell text."""
    if feed is Feed.VALUES and all(command.words and command.words[0].text is not None for command in line.commands):
        return
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
            words = [decoded(word) for word in command.argv[1:] if not word.startswith("-")]
            yield " ".join(words)
            yield " ".join(words[1:])


def guessed_texts(words: Words, line: ShellLine) -> Iterator[str]:
    """Yield what the command that ``words`` begin with may run, for all that is known of it."""
    program = name_of(words[0])
    yield from evaluated_texts(words)
    yield from likely_texts(words)
    yield from _of_another_language(_plain_name(words[0]), [word for word in words[1:] if word is not None])
    if program in line.passing:
        yield from _suffixes(words)
    elif program not in line.functions and _is_unknown_wrapper(words[0]):
        yield from _wrapped(words)
    elif "/" in (words[0] or "") and "--" in words:
        yield " ".join(word for word in words[list(words).index("--") + 1 :] if word is not None)


def _plain_name(word: str | None) -> str:
    """The name of a program without folder and version."""
    program = name_of(word)
    return program if program in SCRIPTED or program in SHELLS else unversioned(program) or program


def _of_another_language(program: str, words: Sequence[str]) -> Iterator[str]:
    values = tuple(word.partition("=")[2] for word in words if re.match(r"(?:-v)?\w+=", word))
    for word in words:
        if program in SCRIPTED:
            yield from commands_in(word, values)
        elif program == "sed":
            yield from commands_in_sed(word.removeprefix("--expression="))
        elif program in RECIPES:
            yield from commands_in_recipes(word.removeprefix("--eval="))


def _is_unknown_wrapper(first: str | None) -> bool:
    """Return whether it may be an unknown wrapper: a plain name in no table."""
    program = name_of(first)
    if not first or "/" in first or not re.fullmatch(r"[a-z][\w.+-]*", program):
        return False
    names = {program, unversioned(program)}
    return not any(names & table for table in (PLAIN_PROGRAMS, SCRIPTED, SHELLS)) and runner_of(program) is None


def _wrapped(words: Words) -> Iterator[str]:
    """Every word as a text of its own, and all that follows one as another."""
    yield from (word for word in words[1:] if word and re.search(r"[\s;|&]", word))
    yield from _suffixes(words)


def _suffixes(words: Words) -> Iterator[str]:
    for start in range(1, min(len(words), MOST_WORDS)):
        word = words[start]
        if word and re.fullmatch(r"[\w./+-]+", word) and not word.startswith("-"):
            yield " ".join(one for one in words[start:] if one is not None)


MOST_WORDS = 24


def runs_unknown(words: Words) -> bool:
    """Return whether text that only running tells is run, as a program or a script."""
    program, unknown = name_of(words[0]), any(word is None for word in words)
    return (
        words[0] is None
        or (unknown and program in {"eval", "source", ".", *SHELLS})
        or any(word is not None and word.startswith("--config-env") for word in words)
    )


def values_run(line: ShellLine) -> Iterator[str]:
    """Yield what variables and positional parameters of the line hold."""
    yield from (value for _, value in line.assigned)
    yield from _inputs(line)
    for command in line.commands:
        if command.argv[:1] == ("set",) or command.argv[:2] == ("printf", "-v"):
            yield from _suffixes(command.argv)
