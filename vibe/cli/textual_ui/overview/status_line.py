"""StatusLine: the person's own part of the bottom line, printed by a command of theirs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from rich.text import Text
from textual.content import Content

from vibe.app.view.agent_view import AgentView
from vibe.app.view.transcript import Key
from vibe.app.view.view import View
from vibe.cli.render.event_text import one_line
from vibe.cli.textual_ui.log.clean import clean_coloured
from vibe.cli.textual_ui.overview.ticker import Ticker

EVERY_SECONDS: Final = 1.0
"""Between two beginnings of the command."""
MOST_SECONDS: Final = 5.0
"""For the command."""
LONGEST: Final = 1_000
_WITH_INPUT: Final = ("/bin/sh", "-c", 'said=$1; shift; printf "%s\\n" "$said" | "$@"', "status")


class StatusLine:
    """Has ``command`` print a line whenever what it is told has changed, and the ticker show it.

    It is the person's own shell command, run in ``folder`` with their ``environ``; it gets ``status_document`` as JSON.
    A failure is told to ``say`` once, and the ticker then shows what it usually does.
    """

    def __init__(
        self, ticker: Ticker, command: str, environ: Mapping[str, str], folder: Path, say: Callable[[str, str], object]
    ) -> None:
        self._ticker = ticker
        self._command = command
        self._environ = environ
        self._folder = folder
        self._say = say
        self._told = ""
        """The document that the command got last."""
        self._wanted = ""
        self._began_at = -EVERY_SECONDS
        self._is_waiting = False
        """It runs, or will soon."""
        self._has_failed = False

    def present(self, view: View, changed: frozenset[Key]) -> None:  # noqa: ARG002  as every presenter
        """See whether there is something new to tell."""
        agent = self._ticker.agent
        if agent is not None:
            self._wanted = json.dumps(status_document(view, agent, str(self._folder)))
            self._look()

    def _look(self) -> None:
        """Begin the command, now or once it may, if it does not know yet what is wanted."""
        if self._is_waiting or self._wanted == self._told:
            return
        self._is_waiting = True
        wait = self._began_at + EVERY_SECONDS - time.monotonic()
        if wait > 0:
            self._ticker.set_timer(wait, self._begin)
        else:
            self._begin()

    def _begin(self) -> None:
        self._began_at = time.monotonic()
        self._told = self._wanted
        self._ticker.run_worker(self._run(self._told), group="status")

    async def _run(self, document: str) -> None:
        from vibe.core.tools.process.runner import (  # noqa: PLC0415  after the first frame
            CommandStartError,
            OutputLimit,
            run_command,
            shell_argv,
        )

        argv: Sequence[str] = [*_WITH_INPUT, document, *shell_argv(self._command)]
        try:
            ended = await run_command(
                argv, cwd=self._folder, environ=self._environ, timeout=MOST_SECONDS, limit=OutputLimit(raw=True)
            )
        except CommandStartError as error:
            self._fail(f"can't be started: {error}")
        else:
            if ended.timed_out:
                self._fail(f"took more than {MOST_SECONDS:g} s")
            elif not ended.is_success:
                self._fail(
                    f"ended with exit code {ended.exit_code}: {one_line(ended.stderr, 200) or 'it said nothing'}"
                )
            else:
                self._ticker.show_own(own_content(ended.stdout))
        self._is_waiting = False
        self._look()

    def _fail(self, problem: str) -> None:
        self._ticker.show_own(None)
        if not self._has_failed:
            self._has_failed = True
            self._say(f"[ui] status_line: the command {problem}", "warning")


def status_document(view: View, agent: AgentView, folder: str) -> dict[str, Any]:
    """Return all that the command is told; a number that nobody knows is null, and so is ``plan`` without a plan."""
    plan, run = view.plan, view.runs.get(agent.source)
    return {
        "session_id": agent.session_id,
        "agent": agent.profile,
        "model": agent.model,
        "folder": (run.workspace if run is not None else "") or folder,
        "context_tokens": agent.context_tokens,
        "context_limit": agent.context_limit,
        "tokens": view.spent.tokens,
        "cost_usd": view.spent.cost_usd,
        "plan": None if plan is None or not plan.total else f"{plan.done}/{plan.total}",
        "plan_status": None if plan is None or not plan.total else plan.status,
    }


def own_content(printed: str) -> Content | None:
    """Return the first line of what was printed with its colours, without all else that a terminal would act on."""
    line = clean_coloured(printed.lstrip("\n").partition("\n")[0], LONGEST).replace("\t", " ").rstrip()
    return Content.from_rich_text(Text.from_ansi(line)) if line else None
