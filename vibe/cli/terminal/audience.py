"""The audience of a plan's run at a terminal: a person who watches the tree, and answers what is asked there."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from vibe.app.plan.decision_prompter import DecisionPrompter
from vibe.app.plan.dispatch import Audience
from vibe.cli.environment import CliEnvironment
from vibe.cli.terminal.live_tree import LiveTree
from vibe.cli.terminal.person import TerminalPerson
from vibe.cli.terminal.prompt_queue import PromptQueue


@contextmanager
def interactive_audience(env: CliEnvironment) -> Generator[Audience]:
    """Yield the audience of a person who watches the tree and answers approvals, questions and decisions."""
    with LiveTree(env.stdout, environ=env.environ) as tree:
        queue = PromptQueue(env, tree)
        person = TerminalPerson(queue, tree.asking_step, tree.questioned_step)
        decider = DecisionPrompter(person.decide)
        yield Audience(listeners=[tree, decider, queue], approver=person, user_input=person.answer, decider=decider)
