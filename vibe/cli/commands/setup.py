"""``vibe setup``: sets up a provider, its key and a model and tests them, by questions at a terminal or by flags."""

from __future__ import annotations

import anyio
from msgspec.structs import replace

from vibe.app.first_use.flow import FirstUse, KeyStore, ProviderChoice, SetupSelection
from vibe.app.inspect.trial import Trial
from vibe.cli.environment import Arguments, CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.parser import CommandLineError
from vibe.system.errors import EnvironmentFailure, error_as
from vibe.system.keyring import KeyringError
from vibe.system.plain_text import one_line

LONGEST = 600
MOST_KEY = 16_384
"""Characters of standard input that are read as a key."""
STDIN = "-"


def run(args: Arguments, env: CliEnvironment) -> int:
    """Set up vibe; the exit code is 3 if the model does not answer."""
    flow = FirstUse(env, env.cwd)
    choice = None if args.provider is None else flow.choice(args.provider)
    if args.forget_key:
        _forget(flow, choice, args, env)
        return ExitCode.DONE
    store = None if args.key_store is None else KeyStore(args.key_store)
    key = "" if args.key_from is None else _key(args.key_from, env)
    if args.output == "text" and env.stdin.isatty() and env.stdout.isatty():
        from vibe.cli.terminal.setup_talk import SetupTalk  # noqa: PLC0415  scripts don't need it

        return SetupTalk(flow, env, tests=not args.no_test, store=store).hold(choice, key, args.model)
    selection = replace(_selection(flow, choice, key, args.model), store=store or KeyStore.FILE)
    if key and not selection.choice.variable:
        raise CommandLineError(f"--key-from: provider {selection.choice.name!r} takes no key: leave it out")
    trial = None if args.no_test else anyio.run(flow.try_out, selection)
    if trial is not None and trial.fault is not None and args.output == "text":
        untested = "nothing was changed (--no-test changes the settings without a question)"
        raise EnvironmentFailure(f"{trial.sentence}; {untested}")
    failed = trial is not None and trial.fault is not None
    sentences = () if failed else _kept(flow, selection)
    lines = (*((trial.sentence,) if trial else ()), *sentences)
    env.answer(args, _document(selection, trial, sentences), (one_line(line, LONGEST) for line in lines))
    return ExitCode.ENVIRONMENT if failed else ExitCode.DONE


def _kept(flow: FirstUse, selection: SetupSelection) -> tuple[str, ...]:
    with error_as(KeyringError, lambda error: EnvironmentFailure(f"{error}; keep the key in a file: --key-store file")):
        return flow.keep(selection)


def _forget(flow: FirstUse, choice: ProviderChoice | None, args: Arguments, env: CliEnvironment) -> None:
    """Remove a key, and nothing else."""
    if choice is None:
        raise CommandLineError("--forget-key: --provider is missing: name the provider whose key is to be removed")
    for word, given in (("--key-from", args.key_from), ("--model", args.model), ("--key-store", args.key_store)):
        if given is not None:
            raise CommandLineError(f"--forget-key only removes a key: leave {word} out")
    removed = flow.forget_key(choice)
    document = {"provider": choice.name, "key_variable": choice.variable or None, "removed": list(removed)}
    env.answer(args, document, (one_line(line, LONGEST) for line in removed))


def _key(place: str, env: CliEnvironment) -> str:
    """Return the key from the place that a flag names. The key itself is never on the command line."""
    if place != STDIN:
        if not env.environ.get(place, "").strip():
            raise CommandLineError(f"--key-from: there is no key in a variable of that name ({len(place)} characters)")
        return env.environ[place].strip()
    if env.stdin.isatty():
        raise CommandLineError("--key-from -: standard input is a terminal: omit it, and type the key unseen")
    key = env.stdin.read(MOST_KEY).strip()
    if not key:
        raise CommandLineError("--key-from -: there is nothing on standard input: write the key to it")
    return key


def _selection(flow: FirstUse, choice: ProviderChoice | None, key: str, model: str | None) -> SetupSelection:
    """Return the choices made by the flags.

    Raises:
        CommandLineError: a choice is missing, and there is no terminal to ask.
    """
    why = "there is no terminal to ask"
    if choice is None:
        names = ", ".join(one.name for one in flow.choices)
        raise CommandLineError(f"--provider is missing, and {why}: name one of {names}")
    if choice.lacks_key and not key:
        raise CommandLineError(
            f"--key-from is missing, and {why}: name the variable that holds the key of {choice.name!r}, or -"
        )
    if model is None:
        raise CommandLineError(f"--model is missing, and {why}: name a model of {choice.name!r}")
    return SetupSelection(choice=choice, model=model, key=key)


def _document(selection: SetupSelection, trial: Trial | None, sentences: tuple[str, ...]) -> dict[str, object]:
    return {
        "provider": selection.choice.name,
        "model": selection.model,
        "key_variable": selection.choice.variable or None,
        "answered": None if trial is None else trial.fault is None,
        "fault": None if trial is None or trial.fault is None else trial.fault.value,
        "detail": "" if trial is None else trial.sentence,
        "kept": list(sentences),
    }
