"""SetupTalk: sets up vibe through questions at a terminal, one after the other; the key is typed unseen."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import anyio
from msgspec.structs import replace

from vibe.app.first_use.flow import (
    BadKeyError,
    FirstUse,
    KeyStore,
    ModelMenu,
    ProviderChoice,
    SetupSelection,
    checked_key,
)
from vibe.app.inspect.trial import TrialFault
from vibe.cli.environment import CliEnvironment
from vibe.cli.exit_codes import ExitCode
from vibe.cli.signals import cancelled_by_signals
from vibe.cli.terminal.keyboard import KeyboardGoneError, unseen
from vibe.cli.terminal.person import ask_choice
from vibe.cli.terminal.prompt_queue import PromptQueue
from vibe.core.config.loader import KEYRING
from vibe.front.request_text import MenuItem, NumberedQuestion, options_text
from vibe.system.errors import EnvironmentFailure
from vibe.system.keyring import keyring_problem
from vibe.system.plain_text import ESCAPE, counted, one_line

WELCOME = """
Set up vibe: provider, API key and model. Esc quits; nothing is changed before the end.
"""
LEAVE = "leave"
MOST_MODELS = 15
"""Models that are listed; for any other, the person types part of its name."""
LONGEST = 600
NEXT = {
    "key": MenuItem(label="another key"),
    "model": MenuItem(label="another model"),
    "again": MenuItem(label="try again"),
    "keep": MenuItem(label="save it anyway"),
}


class _LeftError(Exception):
    """The person doesn't want to continue."""


class SetupTalk:
    """Asks for what the flags leave open. With ``tests``, the model is asked a first question.

    If ``store`` is None, it also asks where to keep the key.
    """

    def __init__(self, flow: FirstUse, env: CliEnvironment, *, tests: bool, store: KeyStore | None = None) -> None:
        self._flow = flow
        self._env = env
        self._terminal = env.stdin
        self._tests = tests
        self._store = store
        self._desk = PromptQueue(env)

    def hold(self, choice: ProviderChoice | None, key: str, model: str | None) -> int:
        """Ask the questions and return the exit code."""
        return anyio.run(self._hold, choice, key, model)

    async def _hold(self, choice: ProviderChoice | None, key: str, model: str | None) -> int:
        code: int = ExitCode.INTERRUPTED
        async with cancelled_by_signals(self._env) as signals:
            try:
                code = await self._talk(choice, key, model)
            except KeyboardGoneError as error:
                problem = "the terminal is gone, or shows all that is typed: give the key with --key-from"
                raise EnvironmentFailure(problem) from error
        return signals.exit_code or code

    async def _talk(self, choice: ProviderChoice | None, key: str, model: str | None) -> int:
        async with self._desk.conversation(WELCOME, escape=True):
            try:
                await self._ask(choice, key, model)
            except _LeftError:
                await self._desk.say("\n  Nothing was changed; `vibe setup` begins again.\n")
                return ExitCode.BLOCKED
        return ExitCode.DONE

    async def _ask(self, choice: ProviderChoice | None, key: str, model: str | None) -> None:
        choice = choice or await self._provider()
        if not key and choice.variable:
            key = await self._key(choice)
        selection = SetupSelection(choice=choice, key=key, model=model or "", store=self._store or KeyStore.FILE)
        if not model:
            selection = await self._with_model(selection)
        while self._tests:
            await self._desk.say(f"\n  testing {one_line(selection.model, LONGEST)} ...\n")
            trial = await self._flow.try_out(selection)
            await self._tell(trial.sentence)
            if trial.fault is None:
                break
            changed = await self._after_failure(selection, trial.fault)
            if changed is None:
                break
            selection = changed
        if selection.key and self._store is None:
            selection = replace(selection, store=await self._place())
        for sentence in await anyio.to_thread.run_sync(self._flow.keep, selection):
            await self._tell(sentence)
        await self._desk.say('\n  Ready. Try it: vibe -p "what does this project do?"\n')

    async def _provider(self) -> ProviderChoice:
        choices = self._flow.choices
        items = [MenuItem(label=choice.name, description=choice.about) for choice in choices]
        return choices[await self._picked("Choose a provider", items, default=self._flow.likely)]

    async def _place(self) -> KeyStore:
        """Return where to keep the key; without a working keyring there is nothing to ask."""
        if await anyio.to_thread.run_sync(keyring_problem, abandon_on_cancel=True) is not None:
            return KeyStore.FILE
        items = [MenuItem(label=KEYRING), MenuItem(label=self._flow.env_file)]
        is_file = await self._picked("Where should the key be stored?", items, default=0)
        return KeyStore.FILE if is_file else KeyStore.KEYRING

    async def _key(self, choice: ProviderChoice) -> str:
        """Return the key that was typed; blank means the key that was found."""
        await self._desk.say(f"\n? The key of {choice.name} ({choice.variable})\n")
        enter = f"Enter: the one in {choice.key_place}; " if choice.key_place else ""
        while True:
            with unseen(self._terminal.fileno()):
                line = await self._desk.answer(f"  [not shown as you type; {enter}Esc: {LEAVE}]  > ")
            await self._desk.say("\n")
            if line is None or line == ESCAPE:
                raise _LeftError
            if not line.strip() and choice.key_place:
                return ""
            try:
                return checked_key(line)
            except BadKeyError as error:
                await self._tell(f"{error}")

    async def _with_model(self, selection: SetupSelection) -> SetupSelection:
        """Return the selection with a model, and with a new key if the provider refused the old one."""
        while True:
            await self._desk.say(f"\n  asking {selection.choice.name} for its models ...\n")
            menu = await anyio.to_thread.run_sync(
                partial(self._flow.models, selection.choice, selection.key), abandon_on_cancel=True
            )
            if menu.problem:
                await self._tell(menu.problem)
            if not menu.key_is_refused:
                break
            await self._tell(f"{selection.choice.name} refused the key: check that all of it was copied")
            if await self._picked("What now?", [NEXT["key"], NEXT["keep"]], default=0) == 1:
                break
            selection = replace(selection, key=await self._key(selection.choice), model="")
        return replace(selection, model=await self._model(menu))

    async def _after_failure(self, selection: SetupSelection, fault: TrialFault) -> SetupSelection | None:
        """Return the selection to try next, or None to keep the present one as it is."""
        words = [word for word in NEXT if word != "key" or selection.choice.variable]
        likely = fault.value if fault.value in words else "again"
        items = [NEXT[word] for word in words]
        word = words[await self._picked("The test failed. What now?", items, default=words.index(likely))]
        if word == "key":
            return replace(selection, key=await self._key(selection.choice))
        if word == "model":
            return await self._with_model(selection)
        return selection if word == "again" else None

    async def _model(self, menu: ModelMenu) -> str:
        """Return the name of the model that the person picks or types."""
        names: Sequence[str] = menu.names
        while True:
            choosing = NumberedQuestion(
                options=tuple(MenuItem(label=name) for name in names[:MOST_MODELS]),
                default=(0,) if names else (),
                own_words=True,
                declines=LEAVE,
            )
            more = len(names) - MOST_MODELS
            note = f"   and {counted(more, 'model')} more: type a part of the name\n" if more > 0 else ""
            await self._desk.say(f"\n? Which model?\n{options_text(choosing)}{note}")
            picked = await ask_choice(self._desk, choosing)
            if picked is None:
                raise _LeftError
            if not picked.words:
                return names[picked.positions[0]]
            like = menu.like(picked.words)
            if len(like) == 1 or not like:
                return like[0] if like else picked.words
            names = like

    async def _picked(self, question: str, items: Sequence[MenuItem], *, default: int) -> int:
        """Return the position of the item that the person picks."""
        choosing = NumberedQuestion(options=tuple(items), default=(default,), declines=LEAVE)
        await self._desk.say(f"\n? {question}\n{options_text(choosing)}")
        picked = await ask_choice(self._desk, choosing)
        if picked is None:
            raise _LeftError
        return picked.positions[0]

    async def _tell(self, sentence: str) -> None:
        await self._desk.say(f"  {one_line(sentence, LONGEST)}\n")
