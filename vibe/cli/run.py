"""One command line from its words to its exit code: the door through which every error leaves."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Sequence
from types import ModuleType

from ipc.errors import IpcError
from vibe.cli.environment import CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.parser import Parser
from vibe.core.errors import EnvironmentFailure, UsageError, VibeError

COMMANDS = {
    "plan": "vibe.cli.commands.plan",
    "events": "vibe.cli.commands.events",
}
"""Reserved first words and the module that serves each; anything else is a prompt."""

PROMPT_COMMAND = "vibe.cli.commands.prompt"


def run_command_line(arguments: Sequence[str]) -> int:
    """Do what the words say. Errors become one sentence on stderr; a traceback only with ``--debug``."""
    debug = "--debug" in arguments
    words = [word for word in arguments if word != "--debug"]
    env = CliEnvironment.from_process()
    try:
        code = _dispatch(words, env)
        env.stdout.flush()
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        _silence_stdout()
        return ExitCode.DONE
    except (VibeError, IpcError) as error:
        return _report(error, exit_code_of(error), env, debug=debug)
    except Exception as error:  # noqa: BLE001  the last door: nobody above can say it better
        return _report(error, ExitCode.FAILED, env, debug=debug)
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


def _report(error: Exception, code: ExitCode, env: CliEnvironment, *, debug: bool) -> int:
    if debug:
        traceback.print_exception(error, file=env.stderr)
    sentence = str(error) if isinstance(error, VibeError | IpcError) else _internal(error)
    env.stderr.write(f"vibe: {sentence}\n")
    return code


def _internal(error: Exception) -> str:
    return (
        f"internal error ({type(error).__name__}: {error}); please report it with the output of the same with --debug"
    )


def _silence_stdout() -> None:
    """Keep the interpreter from complaining about a reader that went away when it flushes at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
