"""One command line from its words to its exit code: the door through which every error leaves."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from types import ModuleType
from typing import TextIO

from ipc.errors import IpcError
from vibe.cli.environment import CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.log_file import start_logging
from vibe.cli.parser import Parser
from vibe.cli.streams import problem_of
from vibe.core.config.paths import VibePaths
from vibe.core.errors import EnvironmentFailure, UsageError, VibeError, innermost

COMMANDS = {
    "plan": "vibe.cli.commands.plan",
    "agents": "vibe.cli.commands.agents",
    "config": "vibe.cli.commands.config",
    "tools": "vibe.cli.commands.tools",
    "events": "vibe.cli.commands.events",
    "memory": "vibe.cli.commands.memory",
    "skills": "vibe.cli.commands.skills",
    "trust": "vibe.cli.commands.trust",
    "session": "vibe.cli.commands.session",
    "mcp": "vibe.cli.commands.mcp",
    "permissions": "vibe.cli.commands.permissions",
    "doctor": "vibe.cli.commands.doctor",
}
"""Reserved first words and the module that serves each; anything else is a prompt."""

PROMPT_COMMAND = "vibe.cli.commands.prompt"


class UnwrittenOutputError(EnvironmentFailure):
    """Standard output refused what the command had to say."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"standard output can't be written ({error.strerror}): send it where there is room")


def run_command_line(arguments: Sequence[str]) -> int:
    """Do what the words say. Errors become one sentence on stderr; a traceback only with ``--debug``."""
    debug = "--debug" in arguments
    words = [word for word in arguments if word != "--debug"]
    try:
        env = CliEnvironment.from_process()
    except EnvironmentFailure as error:
        sys.stderr.write(f"vibe: {error}\n")
        return ExitCode.ENVIRONMENT
    try:
        start_logging(VibePaths(env.home).log_file, env.environ)
        code = _dispatch(words, env)
        env.stdout.flush()
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        _silence(env.stdout)
        return ExitCode.DONE
    except (VibeError, IpcError) as error:
        return _report(error, exit_code_of(error), env, debug=debug)
    except Exception as error:  # noqa: BLE001  the last door: nobody above can say it better
        unwritten = problem_of(env.stdout)
        if unwritten is None:
            return _report(innermost(error), ExitCode.FAILED, env, debug=debug)
        _silence(env.stdout)
        return _report(UnwrittenOutputError(unwritten), ExitCode.ENVIRONMENT, env, debug=debug)
    unwritten = problem_of(env.stdout)
    if unwritten is not None and code == ExitCode.DONE:
        return _report(UnwrittenOutputError(unwritten), ExitCode.ENVIRONMENT, env, debug=debug)
    return code


def exit_code_of(error: Exception) -> ExitCode:
    """The exit code an error's class stands for."""
    if isinstance(error, UsageError):
        return ExitCode.USAGE
    if isinstance(error, EnvironmentFailure | IpcError):
        return ExitCode.ENVIRONMENT
    return ExitCode.FAILED


def _dispatch(words: list[str], env: CliEnvironment) -> int:
    parser = Parser(prog="vibe", description="A coding agent that plans and executes.")
    if words and words[0] in COMMANDS:
        module = importlib.import_module(COMMANDS[words[0]])
        module.add_arguments(parser.add_subparsers(dest="command", parser_class=Parser))
    else:
        module = importlib.import_module(PROMPT_COMMAND)
        module.add_arguments(parser, COMMANDS)
    return _serve(module, parser, words, env)


def _serve(module: ModuleType, parser: Parser, words: list[str], env: CliEnvironment) -> int:
    return int(module.run(parser.parse_args(words), env))


def _report(error: BaseException, code: ExitCode, env: CliEnvironment, *, debug: bool) -> int:
    if debug:
        traceback.print_exception(error, file=env.stderr)
    sentence = str(error) if isinstance(error, VibeError | IpcError) else _internal(error)
    from vibe.cli.describe import harmless  # noqa: PLC0415  most commands end without an error

    env.stderr.write(f"vibe: {harmless(sentence)}\n")
    return code


def _internal(error: BaseException) -> str:
    return (
        f"internal error ({type(error).__name__}: {error}); please report it with the output of the same with --debug"
    )


def _silence(stdout: TextIO) -> None:
    """Keep the interpreter from complaining about what is still buffered when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stdout.fileno())
