"""Takes one command line from its words to its exit code; every error is reported here."""

from __future__ import annotations

import importlib
import math
import signal
from collections.abc import Callable, Sequence
from functools import partial
from importlib.util import find_spec
from itertools import takewhile

from msgspec.structs import replace

from ipc.errors import IpcError, UnknownSourceError
from vibe.app.engine.host import existing_folder
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.grammar import COMMANDS, read_words
from vibe.cli.log_file import logging_to
from vibe.cli.parser import CommandLineError, TextRequested
from vibe.cli.streams import problem_of, settle, unwritten
from vibe.core.config.paths import VibePaths
from vibe.system.errors import EnvironmentFailure, UsageError, VibeError, innermost, out_of_files, shortage, unexpected
from vibe.system.plain_text import plain

EXPECTED = (VibeError, IpcError)
"""Errors whose message is shown as it is."""
STOPPED = frozenset({ExitCode.HUNG_UP, ExitCode.INTERRUPTED, ExitCode.TERMINATED})
SECONDS_FOR_READER = 2.0
"""Seconds that a stopped run waits for the reader of its output."""

DETACH = "--detach"
SERVED_BY = {
    "plan_run": ("resume",),
    "plan_files": ("validate", "show", "graph", "schema", "diff"),
    "plan_folders": ("list", "status", "library"),
    "plan_control": ("pause", "cancel", "decide", "approve", "retry", "skip", "steer", "rewind"),
}
"""Modules that carry out several subcommands. Others have a module of their own name, or are in their command's.

A module's ``run_NAME`` carries out the subcommand NAME; without one, its ``run`` does.
"""


def run_command_line(arguments: Sequence[str], env: CliEnvironment) -> int:
    """Carry out a command line in this environment, and return the exit code.

    Errors become one sentence on stderr, with a traceback only under ``--debug``. Nothing in the process is changed
    permanently, so a program may run any number of command lines, one after the other.
    """
    words = [word for word in arguments if word != "--debug"]
    act = partial(_dispatch, words)
    if DETACH in takewhile("--".__ne__, words) and env.owns_process and env.detached is None:
        from vibe.cli.detached import detached  # noqa: PLC0415  few commands leave their terminal

        act = partial(detached, partial(run_command_line, arguments), partial(_given_output, words))
    return carried_out(act, env, debug="--debug" in arguments)


def carried_out(act: Callable[[CliEnvironment], int], env: CliEnvironment, *, debug: bool = False) -> int:
    """Return the exit code of a command, once its output is taken; an error becomes a sentence on stderr."""
    for which in (signal.SIGTERM, signal.SIGHUP) if env.owns_process else ():
        if signal.getsignal(which) != signal.SIG_IGN:
            signal.signal(which, _stopped)
    code = _code_of(act, env, debug=debug)
    settle(env.stdout, SECONDS_FOR_READER if code in STOPPED else None)
    settle(env.stderr, SECONDS_FOR_READER)
    if env.owns_process:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # one Ctrl-C too many must not tear what is only cleaning up
    problem = problem_of(env.stdout)
    if problem is not None:
        return _tell_error(EnvironmentFailure(unwritten(problem)), code or ExitCode.ENVIRONMENT, env, debug=debug)
    return code


def _code_of(act: Callable[[CliEnvironment], int], env: CliEnvironment, *, debug: bool) -> int:
    code = 0
    try:
        code = act(env)
        env.stdout.flush()
    except KeyboardInterrupt as stopped:
        which = signal.Signals(stopped.args[0] if stopped.args else signal.SIGINT)
        env.stderr.write(f"vibe: stopped by {which.name}\n")
        return ExitCode(128 + which)
    except BrokenPipeError:  # the reader has seen enough
        return code
    except EXPECTED as error:
        return _tell_error(error, exit_code_of(error), env, debug=debug)
    except Exception as error:  # noqa: BLE001  the last place that can tell the user
        if problem_of(env.stdout) is not None:  # it is told once all output is settled
            return code
        told = error if shortage(error) else innermost(error)
        return _tell_error(told, exit_code_of(told), env, debug=debug)
    return code


def _stopped(which: int, _frame: object) -> None:
    """End what is under way by an exception."""
    raise KeyboardInterrupt(which)


def exit_code_of(error: BaseException) -> ExitCode:
    """Return the exit code for an error, by its class or by the resource that the system lacked."""
    if isinstance(error, UsageError | UnknownSourceError) and not shortage(error):
        return ExitCode.USAGE
    is_outside = shortage(error) or isinstance(error, EnvironmentFailure | IpcError)
    return ExitCode.ENVIRONMENT if is_outside else ExitCode.FAILED


def _dispatch(words: list[str], env: CliEnvironment) -> int:
    args = Arguments()
    try:
        read_words(words, args)
    except TextRequested as shown:
        env.stdout.write(shown.text)
        return ExitCode.DONE
    if "workdir" in args:
        args.workdir = existing_folder("--workdir", args.workdir, env.cwd)
    if "extra_roots" in args:
        args.extra_roots = tuple(existing_folder("--add-dir", folder, env.cwd) for folder in args.extra_roots)
    if "output" in args:
        args.output = _output(args, env)
    wait = getattr(args, "wait", None)
    env = replace(env, patience=math.inf if wait is True else wait or None)
    if getattr(args, "given", ()):
        from vibe.cli.given import given_settings  # noqa: PLC0415  it loads the settings' models

        env = replace(env, given=given_settings(args.given, env))
    command, below = words[0] if words and words[0] in COMMANDS else "prompt", getattr(args, "subcommand", "")
    subject = command if find_spec(f"vibe.cli.commands.{command}_{below}") is None else f"{command}_{below}"
    subject = next((one for one, served in SERVED_BY.items() if one.startswith(command) and below in served), subject)
    with logging_to(VibePaths(env.home).log_file, env.environ):
        module = importlib.import_module(f"vibe.cli.commands.{subject}")
        carry_out = getattr(module, f"run_{below}", None) or module.run
        return int(carry_out(args, env) or ExitCode.DONE)


def _given_output(words: list[str]) -> str:
    args = Arguments()
    read_words(words, args)
    return args.output or "text"


def _output(args: Arguments, env: CliEnvironment) -> str:
    """Return the format of standard output.

    Raises:
        CommandLineError: the output options can't be combined.
    """
    if getattr(args, "detach", False) and (args.input or not env.owns_process):
        raise CommandLineError(
            "--detach leaves standard input: it can't be combined with --input json"
            if args.input
            else "--detach leaves the process: start the vibe command for it"
        )
    if getattr(args, "input", None) is None:
        return args.output or "text"
    if args.output not in {None, "streaming"}:
        raise CommandLineError("--input json answers in JSON lines: leave --output out, or give streaming")
    return "streaming"


def _tell_error(error: BaseException, code: int, env: CliEnvironment, *, debug: bool) -> int:
    if debug:
        import traceback  # noqa: PLC0415  rarely asked for

        traceback.print_exception(error, file=env.stderr)
    is_told = isinstance(error, EXPECTED) and not out_of_files(error)
    sentence = str(error) if is_told else unexpected(error, with_what=" with the output of --debug")
    env.stderr.write(f"vibe: {plain(sentence)}\n")
    env.warn(getattr(error, "__notes__", ()))
    return code
