"""Somebody at a terminal: the live tree, and whatever a person is asked over it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from vibe.app.decision_desk import DecisionDesk
from vibe.app.run_plan import Audience
from vibe.cli.environment import CliEnvironment
from vibe.cli.live_tree import LiveTree
from vibe.cli.terminal_approver import TerminalApprover
from vibe.cli.terminal_decider import TerminalDecider
from vibe.cli.terminal_desk import TerminalDesk
from vibe.cli.terminal_questions import TerminalUserInput


@contextmanager
def attended(env: CliEnvironment) -> Generator[Audience]:
    """The person who watches the tree on stdout and answers at the keyboard: approvals, questions and decisions."""
    with LiveTree(env.stdout, environ=env.environ) as tree:
        desk = TerminalDesk(env, tree)
        decider = DecisionDesk(TerminalDecider(desk))
        yield Audience(
            listeners=[tree, decider, desk],
            approver=TerminalApprover(desk, tree.asking_step),
            user_input=TerminalUserInput(desk, tree.questioned_step),
            decider=decider,
        )
