"""Knows the programs that run other commands, and the words at which those commands may start.

A position counts if the program could run the word there. If it is unknown whether an option takes a value, both
readings count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TypeAlias

from vibe.shell.policy.option_parsing import OptionRow, by_name, options_in

SHELLS = frozenset({
    "ash", "bash", "csh", "dash", "elvish", "fish", "ksh", "mksh", "nu", "posh", "pwsh", "rbash",
    "sh", "tcsh", "xonsh", "yash", "zsh",
})  # fmt: skip

Words: TypeAlias = "Sequence[str | None]"
"""The words of a command. None is a word known only at run time."""


@dataclass(frozen=True)
class Runner(OptionRow):
    """A program that runs the command among its words.

    Attributes:
        before: Number of the program's own operands before the command.
        optional: Number of further operands that may come before the command.
        after: Words, such as subcommands or ``-exec``, one of which must come before the command.
        anywhere: The command may start at any word, because the program has too many options to list.
        assigns: ``NAME=VALUE`` may come before the command.
    """

    before: int = 0
    _: KW_ONLY
    optional: int = 0
    after: str = ""
    anywhere: bool = False
    assigns: bool = False


WITHOUT_OPTIONS = (
    "aa-exec", "bear", "builtin", "bunx", "busybox", "caffeinate", "catatonit", "catchsegv", "ccache", "cgexec",
    "choom", "chpst", "chronic", "cpulimit", "dbus-run-session", "distcc", "dumb-init", "eatmydata", "entr", "fakeroot",
    "heaptrack", "hyperfine", "i386", "ifne", "kitty", "linux32", "linux64", "ltrace", "mpirun", "nocorrect",
    "noglob", "nohup", "npx", "nq", "nsenter", "numactl", "openvt", "pkexec", "prlimit", "proxychains", "proxychains4",
    "retry", "rlwrap", "run0", "runuser", "s6-softlimit", "salloc", "sem", "setlock", "setpriv", "softlimit",
    "srun", "ssh-agent", "systemd-inhibit", "systemd-run", "timelimit", "tini", "torify", "torsocks", "toybox", "tsp",
    "uclampset", "uname26", "unbuffer", "unshare", "uvx", "valgrind", "wine", "winpty", "wsl", "x86_64", "xterm",
    "xvfb-run",
)  # fmt: skip
"""Programs whose command begins with the first word that is neither an option nor, perhaps, the value of one."""
AFTER_ONE_WORD = (
    "abduco", "chroot", "dtach", "envdir", "faketime", "gosu", "mosh", "rsh", "runcon", "s6-envdir",
    "s6-setuidgid", "setuidgid", "ssh", "su-exec", "taskset",
)  # fmt: skip
ANYWHERE = Runner(anywhere=True)
CONTAINER = (
    "-v= -e= -p= -w= -u= -l= -h= -m= -c= -a= -itdTP --name= --volume= --env= --publish= --workdir= --user= --network= "
    "--entrypoint= --mount= --rm --init --platform= --env-file= --memory= --cpus= --gpus= --hostname= --label= --tty "
    "--interactive --detach --privileged --pull= --no-deps --shm-size= --cap-add= --add-host="
)

RUNNERS = by_name({
    ", ".join(WITHOUT_OPTIONS): Runner(),
    ", ".join(AFTER_ONE_WORD): Runner(before=1),
    "arch, chrt, coproc, script, setarch": Runner(optional=1),
    # keywords and builtins of the shell
    "command": Runner("-p"),
    "exec": Runner("-a= -cl"),
    "time": Runner("-f= -o= -apqvV --format= --output= --append --portability --quiet --verbose"),
    # programs that change how, where or as whom a command runs
    "doas": Runner("-C= -a= -u= -nsL", assigns=True),
    "env": Runner(
        "-C= -u= -S= -a= -i0v --argv0= --chdir= --split-string= --unset= --ignore-environment --null --debug "
        "--block-signal? --default-signal? --ignore-signal? --list-signal-handling",
        assigns=True,
    ),
    "flock": Runner(
        "-w= -E= -c= -senouxFv --timeout= --wait= --conflict-exit-code= --command= --shared --exclusive --nonblock "
        "--nb --unlock --close --no-fork --fcntl --verbose",
        1,
    ),
    "ionice": Runner("-c= -n= -p= -P= -u= -t --class= --classdata= --pid= --pgid= --uid= --ignore"),
    "nice": Runner("-n= --adjustment="),
    "setsid": Runner("-cfw --ctty --fork --wait"),
    "stdbuf": Runner("-i= -o= -e= --input= --output= --error="),
    "sudo": Runner(
        "-C= -D= -R= -T= -U= -a= -c= -g= -h= -p= -r= -t= -u= -AbBEeHiKklNnPSsVv --close-from= --chdir= --chroot= "
        "--command-timeout= --other-user= --auth-type= --login-class= --group= --host= --prompt= --role= --type= "
        "--user= --askpass --background --bell --edit --set-home --login --remove-timestamp --reset-timestamp --list "
        "--non-interactive --preserve-groups --stdin --shell --validate --no-update --preserve-env?",
        assigns=True,
    ),
    "timeout": Runner("-s= -k= -fpv --signal= --kill-after= --foreground --preserve-status --verbose", 1),
    "capsh, machinectl, start-stop-daemon, daemonize, daemon": ANYWHERE,
    "bwrap, firejail, minijail0, nsjail, proot, systemd-nspawn": ANYWHERE,
    # programs that repeat, record or time a command, or run it for each of their inputs
    "find": Runner(after="-exec -execdir -ok -okdir"),
    "fd, fdfind": Runner(after="-x -X --exec --exec-batch"),
    "parallel": Runner(
        "-j= -n= -N= -L= -I= -S= -a= -d= -E= -l= -s= -P= -0kmquvXtp --jobs= --max-args= --colsep= --joblog="
    ),
    "strace": Runner(
        "-o= -e= -p= -P= -s= -a= -b= -E= -I= -O= -S= -u= -U= -X= -cCdDfFhiknNqrtTvVwxyYzZ --output= --trace= --attach= "
        "--user= --env= --string-limit= --columns= --follow-forks --seccomp-bpf --summary-only --summary"
    ),
    "watch": Runner(
        "-n= -q= -s= -bcCdegprtwx --interval= --equexit= --differences? --beep --color --errexit --chgexit "
        "--precise --no-title --no-wrap --exec"
    ),
    "xargs": Runner(
        "-a= -d= -E= -I= -L= -n= -P= -s= -e? -i? -l? -0oprtx --arg-file= --delimiter= --eof? --replace? --max-lines? "
        "--max-args= --max-procs= --max-chars= --process-slot-var= --null --open-tty --interactive --no-run-if-empty "
        "--verbose --exit --show-limits"
    ),
    "perf": Runner(after="record stat trace kmem lock sched"),
    # tools that run a command in an environment, such as a project's or a container
    "asdf, bundle, mise, npm, pnpm, yarn": Runner(after="exec x dlx"),
    "aws-vault, direnv, distrobox, rustup": Runner(before=1, after="enter exec run"),
    "conda, dotenv, doppler, hatch, mamba, micromamba, op, pdm, pipenv, pipx, pixi, poetry, pyenv, rbenv, rr, rye, uv":
        Runner(after="run exec record"),
    "nix": Runner(after="-c --command"),
    "docker, docker-compose, nerdctl, podman": Runner(CONTAINER, 1, after="run exec"),
    "kubectl, oc": Runner("-n= -c= -it --namespace= --container= --context=", 1, after="exec debug run rsh"),
    "adb, lxc, apptainer, singularity": Runner(optional=1, after="shell exec"),
    "flatpak, foreman, heroku, honcho, snap, toolbox, wezterm": Runner(after="run start"),
    "ip": Runner(before=2, after="netns"),
    "jobs": Runner(after="-x"),
    "cmake": Runner(optional=1, assigns=True, after="env time"),
    "cargo": Runner(after="watch"),
})  # fmt: skip
"""The runners by name. ``starts_within`` leaves out uses that only look something up, such as ``command -v``."""

OTHER_RUNNERS = frozenset({
    ".", "alias", "bind", "complete", "enable", "eval", "fc", "hash", "let", "mapfile", "read", "readarray", "set",
    "shopt", "source", "ssh", "su", "sudoedit", "sg", "newgrp", "trap", "unalias", *SHELLS,
})  # fmt: skip
"""Builtins that run their words, or change what later words mean."""

MAX_POSITIONS = 40
"""Maximum number of positions in one command. No honest line nests that many wrappers."""

RESERVED = frozenset({"{", "(", "!", "if", "then", "elif", "else", "while", "until", "do", "time"})
"""Words that a command may follow in a line that the parser can't read as shell."""

GIT_VALUED = options_in("-C= -c= --git-dir= --work-tree= --namespace= --exec-path? --config-env= --super-prefix= "
                        "--attr-source= --list-cmds=")  # fmt: skip


def name_of(word: str | None) -> str:
    """Return the name of a program without its folder."""
    return (word or "").rsplit("/", 1)[-1]


def unversioned(program: str) -> str:
    """Return the name of a program without its version: ``python`` for ``python3.11``."""
    return program.rstrip("0123456789.")


def runner_of(program: str) -> Runner | None:
    """Return how a program takes the command it runs, or None. The dynamic loader is known by any of its names."""
    return Runner() if re.fullmatch(r"ld(?:-[\w.-]+)?\.so[\d.]*", program) else RUNNERS.get(program)


def positions(words: Words) -> list[int]:
    """Return the indexes of the words at which a command may start: 0, 1, 2 for ``sudo env vim``.

    The search stops once there are more than ``MAX_POSITIONS``.
    """
    seen: set[tuple[str, int, int]] = set()
    found: dict[int, None] = {}
    pending = [0]
    while pending and len(found) <= MAX_POSITIONS:
        start = pending.pop()
        if start in found or start >= len(words):
            continue
        found[start] = None
        if words[start] in RESERVED:
            pending.append(start + 1)
        runner = runner_of(name_of(words[start]))
        if runner is not None:
            pending += starts_within(words, start, runner, seen)
    return sorted(found)


def starts_within(words: Words, start: int, runner: Runner, seen: set[tuple[str, int, int]]) -> Iterator[int]:
    """Yield the indexes of the words at which the command of the runner at ``start`` may start.

    ``seen`` holds what other readings have covered already, so that no work is done twice.
    """
    name = name_of(words[start])
    if name == "command" and _is_lookup(words[start + 1 :]):
        return
    if runner.anywhere:
        yield from range(start + 1, len(words))
        return
    after = runner.after.split()
    starts = [index + 1 for index in range(start + 1, len(words)) if words[index] in after]
    pending = [(first, runner.before + runner.optional) for first in (starts if after else [start + 1])]
    while pending:
        index, left = pending.pop()
        if index >= len(words) or (name, index, left) in seen:
            continue
        seen.add((name, index, left))
        word = words[index]
        if word is None or word in RESERVED:
            pending += [(index + 1, left), (index + 1, max(left - 1, 0))]
        elif word in {"--", "-"} or (runner.assigns and re.match(r"\w+\+?=", word)):
            pending.append((index + 1, left))
        elif word.startswith("-"):
            takes = _takes_next(word, runner.options)
            pending += [(index + step, left) for step in (1, 2) if takes is not (step == 1)]
        else:
            yield from [index] if left <= runner.optional else []
            pending += [(index + 1, left - 1)] if left else []


def _is_lookup(words: Words) -> bool:
    """Return whether ``command`` is only asked what a name stands for."""
    for word in words:
        if word is None or not word.startswith("-") or word == "--":
            return False
        if set(word) & {"v", "V"}:
            return True
    return False


def _takes_next(word: str, options: Mapping[str, str]) -> bool | None:
    """Return whether the word after an option is its value, or None if that is unknown."""
    if word.startswith("--"):
        if "=" in word:
            return False
        marks = {mark for name, mark in options.items() if name == word} or {
            mark for name, mark in options.items() if name.startswith(word)
        }
        return marks == {"="} if marks and ("=" not in marks or marks == {"="}) else None
    for index, letter in enumerate(word[1:], 1):
        mark = options.get(f"-{letter}")
        if mark is None:
            return False if re.fullmatch(r"-\d+", word) else None
        if mark:
            return mark == "=" and index == len(word) - 1
    return False


def without_git_options(words: Words) -> Words:
    """Return git's words without its global options: ``git push`` for ``git -C x push``."""
    index = 1
    while index < len(words) and (words[index] or "-").startswith("-"):
        index += 2 if _takes_next(words[index] or "", GIT_VALUED) else 1
    return (words[0], *words[index:])


def runs_others(words: Sequence[str]) -> bool:
    """Return whether a command runs its words, or changes what later words mean.

    Programs that run something only with a subcommand or an option don't count. They are judged by their words, like
    any program.
    """
    program = name_of(words[0]) if words else ""
    runner = runner_of(program)
    return program in OTHER_RUNNERS or (runner is not None and not runner.after and program not in PACKAGE_RUNNERS)


PACKAGE_RUNNERS = frozenset({"arch", "bunx", "npx", "uvx"})
"""Runners whose first word is part of what a person names in an allow list: ``npx jest``."""
