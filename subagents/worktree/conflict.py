"""The task of a subagent that resolves a merge conflict, and what a step comes to together with it."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, structs

from subagents.executor import StepResult, StepTask
from subagents.worktree.merge import MergeConflict
from subagents.worktree.repository import Base, Repository
from subagents.worktree.worktree import OUR_LABEL
from vibe.core.messages import total_of
from vibe.core.modes import ExecutionMode

MOST_COMMITS = 20
MOST_SUMMARY = 2_000
"""Characters of the step's own summary."""

PROMPT = """\
The work of step {step_id!r} is done and was committed. Merging it clashes with what came into the project meanwhile.
You are in the step's git worktree, in the middle of that merge. These files hold conflicts:
{files}

The side called {label} is this step's:
{ours}

The side called {onto} is what is in the project now:
{theirs}

Resolve every conflict so that what both sides meant is kept, and remove every line of marks ({marks}). Where a file
cannot be marked (it is binary, or one side deleted it) it says what to choose from: put the right content in its place
or delete it. Change nothing else. Do not commit, abort or start the merge again: the host commits what the files hold
when you are done.
"""


class Resolving(Struct, frozen=True, kw_only=True):
    """A conflict to be resolved: the ``round``-th of the step's.

    ``theirs`` says what came into the project meanwhile.
    """

    conflict: MergeConflict
    round: int
    theirs: Sequence[str]

    def task(self, task: StepTask, so_far: StepResult, tries: int, problem: str) -> StepTask | None:
        """The ``tries``-th task for it, on what is left of the step's budget; None if nothing is.

        ``problem`` is what the try before left.
        """
        spent, cost = so_far.usage.total_tokens, so_far.cost_usd or 0.0
        price = None if task.step.max_price is None else task.step.max_price - cost
        if spent >= task.max_tokens or (price is not None and price <= 0):
            return None
        return structs.replace(
            task.with_step(
                title=f"Resolve the conflicts of: {task.step.title}",
                mode=ExecutionMode.CODE,
                prompt=self._prompt(task, so_far, problem),
                command=None,
                verify=[],
                max_price=price,
                output_schema=None,
            ),
            max_tokens=task.max_tokens - spent,
            inputs=(),
            conversation=f"merge{self.round}" if tries == 1 else f"merge{self.round}-{tries}",
        )

    def _prompt(self, task: StepTask, so_far: StepResult, problem: str) -> str:
        prompt = PROMPT.format(
            step_id=task.step_id,
            files="\n".join(f"- {path!r}" for path in self.conflict.paths),
            label=OUR_LABEL,
            ours=f"{task.step.title}\n{so_far.summary[:MOST_SUMMARY]}".strip(),
            onto=self.conflict.onto,
            theirs="\n".join(f"- {line}" for line in self.theirs),
            marks="<<<<<<<, |||||||, =======, >>>>>>>",
        )
        if task.step.verify:
            prompt += (
                "\nThen the host runs these checks:\n" + "\n".join(f"- `{line}`" for line in task.step.verify) + "\n"
            )
        return f"{prompt}\nAn earlier try was not good enough: {problem}\n" if problem else prompt


def check_task(task: StepTask) -> StepTask:
    """Runs the step's checks, and nothing else."""
    return structs.replace(task.with_step(title=f"Check the merge of: {task.step.title}"), only_checks=True)


def other_side(repository: Repository, base: Base, conflict: MergeConflict) -> tuple[str, ...]:
    """Return what came into the project since the step began, in the files that clash, in words."""
    paths = [f":(top,literal){path}" for path in conflict.paths]
    words = ("log", "-z", f"-{MOST_COMMITS}", "--no-merges", "--format=%s (%b)", f"{base.head}..{conflict.head}")
    subjects = [" ".join(item.split()) for item in repository.git(*words, "--", *paths).items]
    if conflict.onto != conflict.head:
        subjects.append("changes in the working tree that are not committed")
    return tuple(subjects)


def joined(first: StepResult, second: StepResult) -> StepResult:
    """``first``, with what ``second`` took."""
    return structs.replace(
        first,
        **structs.asdict(total_of((first, second))),
        turns=first.turns + second.turns,
        duration_s=first.duration_s + second.duration_s,
        denied=(*first.denied, *second.denied),
        agents=(*first.agents, *second.agents),
        agent_id=first.agent_id or second.agent_id,
    )
