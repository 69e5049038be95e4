"""Somebody at a terminal: the live tree, and whatever a person is asked over it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from vibe.app.plan.decision_prompter import DecisionDesk
from vibe.app.plan.run import Audience
from vibe.cli.environment import CliEnvironment
from vibe.cli.terminal.approver import TerminalApprover
from vibe.cli.terminal.decider import TerminalDecider
from vibe.cli.terminal.live_tree import LiveTree
from vibe.cli.terminal.prompt_queue import PromptQueue
from vibe.cli.terminal.questions import TerminalUserInput


@contextmanager
def attended(env: CliEnvironment) -> Generator[Audience]:
    """The person who watches the tree on stdout and answers at the keyboard: approvals, questions and decisions."""
    with LiveTree(env.stdout, environ=env.environ) as tree:
        queue = PromptQueue(env, tree)
        decider = DecisionDesk(TerminalDecider(queue))
        yield Audience(
            listeners=[tree, decider, queue],
            approver=TerminalApprover(queue, tree.asking_step),
            user_input=TerminalUserInput(queue, tree.questioned_step),
            decider=decider,
        )
