"""``/plan``: a plan in the conversation; ``/skip``, ``/retry``, ``/cancel`` and ``/pause`` are short for its words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from anyio import to_thread

from planner.store.current_plan import effective_plan
from planner.store.folder import list_plans
from vibe.cli.slash.command import ArgumentChoice, Talk, Typed
from vibe.cli.slash.plan import acts, looks
from vibe.cli.slash.plan.propose import propose
from vibe.core.errors import UsageError

MANY = 100


async def _new(talk: Talk, goal: str) -> None:
    propose(talk, goal)


@dataclass(frozen=True, slots=True)
class PlanWord:
    """A word of ``/plan``: with ``least`` to ``most`` words behind it, it is meant; with more it begins a goal."""

    act: Callable[[Talk, str], Awaitable[None]]
    usage: str
    least: int = 0
    most: int = 1


WORDS = MappingProxyType({
    "new": PlanWord(_new, "GOAL", 1, MANY),
    "status": PlanWord(looks.show_status, "[ID]"),
    "show": PlanWord(looks.show_plan, "[ID]"),
    "list": PlanWord(looks.list_all, "", 0, 0),
    "pause": PlanWord(acts.pause, "", 0, 0),
    "resume": PlanWord(acts.resume, "[ID]"),
    "cancel": PlanWord(acts.cancel, "[STEP]"),
    "decide": PlanWord(acts.decide, "DECISION OPTION[,OPTION]", 2, 2),
    "retry": PlanWord(acts.retry, "[STEP]"),
    "skip": PlanWord(acts.skip, "STEP", 1),
    "edit": PlanWord(acts.edit, "[ID]"),
    "save": PlanWord(looks.save_plan, "FILE", 1),
    "load": PlanWord(looks.load_file, "FILE", 1),
})
WITH_STEPS = frozenset({"cancel", "retry", "skip"})
WITH_PLANS = frozenset({"edit", "resume", "show", "status"})


async def run_plan(talk: Talk, typed: Typed) -> None:
    """Carry out one of the words of ``/plan``, or have a plan written."""
    if typed.name in WORDS:
        given = len(typed.rest.split())
        most = 1 if typed.name in WITH_STEPS else 0
        least = 0 if typed.name == "retry" else most
        if not least <= given <= most:
            raise UsageError(
                f"/{typed.name} STEP: name a step of the plan" if most else f"/{typed.name} takes nothing after it"
            )
        await WORDS[typed.name].act(talk, typed.rest)
        return
    name, *rest = typed.rest.split(maxsplit=1) or [""]
    word, text = WORDS.get(name), "".join(rest)
    if word is None or len(text.split()) > word.most:
        if not typed.rest:
            raise UsageError(f"/plan GOAL: say what the plan must achieve, or one of {', '.join(WORDS)}")
        propose(talk, typed.rest)
    elif len(text.split()) < word.least:
        raise UsageError(f"/plan {name} {word.usage} (a goal that begins so: /plan new {name} ...)")
    else:
        await word.act(talk, text)


async def plan_choices(talk: Talk, text: str) -> Sequence[ArgumentChoice]:
    """Return the words, and behind one what it takes."""
    name, behind, _ = text.partition(" ")
    if not behind:
        return [ArgumentChoice(word, f"/plan {word} {one.usage}".rstrip()) for word, one in WORDS.items()]
    if name in WITH_PLANS:
        plans = await to_thread.run_sync(list_plans, talk.runtime.host.home)
        return [ArgumentChoice(plan.plan_id, plan.goal) for plan in reversed(plans)]
    if name not in WITH_STEPS | {"decide"}:
        return ()
    try:
        loaded = await to_thread.run_sync(effective_plan, await looks.plan_meant(talk))
    except UsageError:  # there is no plan
        return ()
    if name == "decide":
        return [ArgumentChoice(decision.id, decision.question) for decision in loaded.plan.decisions]
    return [ArgumentChoice(step.id, step.title) for step in loaded.plan.steps]
