"""A program with three conversations and a plan in one process, which SIGTERM stops. test_many_at_once.py runs it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from signal import Signals

import anyio

from ipc.commands import Pause
from ipc.events import AssistantDeltaEvent, Event, PlanStepUpdateEvent
from planner.plan.loader import load_plan
from planner.store.folder import PlanRunOptions
from vibe.app.conversation.opening import Opening, Seat
from vibe.app.conversation.runtime import Runtime
from vibe.app.engine.host import Host
from vibe.app.plan.dispatch import Audience
from vibe.app.plan.run import open_plan
from vibe.cli.signals import handled_signals
from vibe.core.tools.permissions import ApprovalMode


class AtWork:
    """Sets ``both`` once three answers are streaming and a second step is running."""

    def __init__(self) -> None:
        self._streams: set[str] = set()
        self._steps: set[str] = set()
        self.both = anyio.Event()

    def publish(self, event: Event) -> None:
        if isinstance(event, AssistantDeltaEvent) and "never" in event.text:
            self._streams.add(event.session_id)
        elif isinstance(event, PlanStepUpdateEvent) and event.status == "in_progress":
            self._steps.add(event.step_id)
        if len(self._streams) == 3 and "second" in self._steps:
            self.both.set()


async def main(home: Path, here: Path, elsewhere: Path) -> int:
    host = Host(home=home, environ=dict(os.environ), owns_process=True)
    at_work = AtWork()
    ids: dict[str, str] = {}

    def on_signal(_which: Signals, _count: int) -> None:
        plan.control.submit(Pause(grace_seconds=0.5))
        for conversation in runtime.conversations:
            conversation.interrupt()

    async with Runtime(host) as runtime, handled_signals(host, on_signal) as signals, anyio.create_task_group() as work:
        seat = Seat(listeners=[at_work])
        for name, folder in (("a", here), ("b", here), ("c", elsewhere)):
            opening = Opening(workdir=folder, approvals=ApprovalMode.ALL)
            conversation = await runtime.open_conversation(opening, seat)
            await conversation.send(f"hello from {name}")
            work.start_soon(conversation.send, f"talk for ever, {name}")
            ids[name] = conversation.session_id
        loaded = load_plan((here / "plan.json").read_bytes(), where="plan.json")
        options = PlanRunOptions(workdir=here, plan_folder=here)
        plan = await open_plan(loaded, options, runtime.host, Audience(listeners=[at_work]))

        async def run() -> None:
            ids["plan"] = str((await plan.run()).record.plan_id)

        work.start_soon(run)
        await at_work.both.wait()
        sys.stdout.write("at work\n")
        sys.stdout.flush()
    sys.stdout.write(json.dumps(ids) + "\n")
    return signals.exit_code or 0


if __name__ == "__main__":
    sys.exit(anyio.run(main, Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])))
