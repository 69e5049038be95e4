"""``vibe [PROMPT]``: answers one prompt, or chats at the terminal; loads only what that takes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from vibe.cli.environment import BUS_TOKEN, Arguments, CliEnvironment
from vibe.cli.grammar import parser_of
from vibe.cli.parser import CommandLineError

if TYPE_CHECKING:
    from vibe.cli.textual_ui.chat_screen import Hold

UNABLE = frozenset({"", "dumb", "unknown"})
"""Values of TERM for terminals that can't draw a screen."""

SHOWING = frozenset({"--attach", "--debug", "--output", "--workdir"})
"""Options that make sense when showing a run elsewhere, or that have a value even when not given."""


def run(args: Arguments, env: CliEnvironment) -> int:
    """Answer the prompt or chat at the terminal, and return the exit code."""
    named = args.prompt is not None or args.prompt_file is not None or args.output_dir is not None
    at_terminal = env.stdin.isatty() and env.stdout.isatty()
    _check(args, env, is_named=named, at_terminal=at_terminal)
    answers_once = named or not at_terminal or args.output != "text"
    if args.attach or not (answers_once or args.plain or not draws(env)):
        from vibe.cli.textual_ui.app import show  # noqa: PLC0415  costs what prompts of scripts do without

        return show(partial(_attached if args.attach else _local, args, env), env)
    from vibe.cli.commands.one_prompt import run_prompt, talk_of  # noqa: PLC0415  the screen is drawn before it is loaded

    if answers_once:
        return run_prompt(args, env)
    from vibe.cli.plain.start import chat  # noqa: PLC0415  as above

    if not args.plain:
        env.stderr.write("vibe: this terminal can't draw a screen (TERM, or no UTF-8): chatting line by line\n")
    if args.setup and (code := _set_up(env)):
        return code
    return chat(*talk_of(args), env)


def _local(args: Arguments, env: CliEnvironment) -> Hold:
    """Load the engine, and return what holds the conversation that the command line asks for."""
    from vibe.cli.commands.one_prompt import talk_of  # noqa: PLC0415  as above
    from vibe.cli.textual_ui.local_chat import hold_chat  # noqa: PLC0415  as above

    return partial(hold_chat, env, talk_of(args), sets_up=args.setup)


def _set_up(env: CliEnvironment) -> int:
    """Set up vibe with questions line by line, and return the exit code."""
    from vibe.app.first_use.flow import FirstUse  # noqa: PLC0415  as above
    from vibe.cli.terminal.setup_talk import SetupTalk  # noqa: PLC0415  as above

    return SetupTalk(FirstUse(env, env.cwd), env, tests=True).hold(None, "", None)


def _attached(args: Arguments, env: CliEnvironment) -> Hold:
    """Load the bus, and return what shows the run elsewhere."""
    from vibe.cli.textual_ui.remote_chat import hold_attached  # noqa: PLC0415  as above

    return partial(hold_attached, env, args.attach, env.environ.get(BUS_TOKEN, ""))


def _check(args: Arguments, env: CliEnvironment, *, is_named: bool, at_terminal: bool) -> None:
    """Check that the arguments suit the terminal or script; ``is_named`` means that one prompt is to be answered.

    Raises:
        CommandLineError: a chat is wanted but not possible, or a run elsewhere can't be shown.
    """
    if args.setup and (is_named or args.attach or args.output != "text" or not at_terminal):
        raise CommandLineError("--setup needs a terminal: use `vibe setup` and its flags")
    if args.attach:
        if not at_terminal:
            raise CommandLineError(f"--attach needs a terminal: use `vibe events tail {args.attach}`")
        if is_named or args.words or args.plain or args.input:
            raise CommandLineError("--attach takes no prompt")
        others = [name for name in parser_of(()).options_set(args) if name not in SHOWING]
        if others:
            raise CommandLineError(f"--attach shows a run as it was begun: leave out {', '.join(others)}")
        if not draws(env):
            raise CommandLineError(f"this terminal can't draw a screen: use `vibe events watch {args.attach}`")
    elif args.plain and (is_named or args.output != "text"):
        raise CommandLineError("--plain can't be combined with -p, --prompt-file, --output or --output-dir")
    elif args.plain and not at_terminal:
        raise CommandLineError("--plain needs a terminal: use `vibe -p PROMPT`")


def draws(env: CliEnvironment) -> bool:
    """Return whether the terminal can show a screen."""
    return env.environ.get("TERM", "") not in UNABLE and _is_utf8(env)


def _is_utf8(env: CliEnvironment) -> bool:
    """Return whether the locale has all characters; without a locale, as in containers, terminals do."""
    locale = next(filter(None, (env.environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))), "UTF-8")
    return "utf" in locale.lower()
