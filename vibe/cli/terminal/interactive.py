"""A person at a terminal: the live tree, and the questions over it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from vibe.app.plan.decision_prompter import DecisionPrompter
from vibe.app.plan.dispatch import Audience
from vibe.cli.environment import CliEnvironment
from vibe.cli.terminal.approver import TerminalApprover
from vibe.cli.terminal.decider import TerminalDecider
from vibe.cli.terminal.live_tree import LiveTree
from vibe.cli.terminal.prompt_queue import PromptQueue
from vibe.cli.terminal.questions import TerminalUserInput


@contextmanager
def interactive_audience(env: CliEnvironment) -> Generator[Audience]:
    """Yield the audience of a person who watches the tree and answers approvals, questions and decisions."""
    with LiveTree(env.stdout, environ=env.environ) as tree:
        queue = PromptQueue(env, tree)
        decider = DecisionPrompter(TerminalDecider(queue))
        yield Audience(
            listeners=[tree, decider, queue],
            approver=TerminalApprover(queue, tree.asking_step),
            user_input=TerminalUserInput(queue, tree.questioned_step),
            decider=decider,
        )
