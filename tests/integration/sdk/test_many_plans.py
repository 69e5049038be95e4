"""Plans side by side in one process: each has its own surroundings, and nothing is left of them."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import suppress
from pathlib import Path

import anyio

from tests.fakes.model_server import ModelServer, Received, Reply
from tests.integration.app.conversation.conftest import CONFIG
from tests.integration.core.session.repository import ENVIRON
from tests.integration.sdk.conftest import Program
from tests.integration.sdk.test_plans import plan, ran, step
from vibe.sdk import Home, PlanResult, StepTask, run_plan

MADE = plan(step("a", verify=["true"]), step("b", "a", mode="run", command="true"), step("c", "b"))
AT_ONCE = 8


def answer(_request: Received) -> Reply:
    return Reply(text="c")


async def greet(task: StepTask) -> str:
    return f"{task.step_id} is done"


def kept() -> tuple[int, Counter[str], list[str]]:
    """Return the number of tasks, what the descriptors are of, without numbers, and the children of this process."""
    children: list[str] = []
    for thread in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # it has just ended
            children += (thread / "children").read_text().split()
    descriptors = Counter[str]()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the one that lists them
            descriptors[re.sub(r"\d+", "", str(descriptor.readlink()))] += 1
    return len(anyio.get_running_tasks()), descriptors, children


async def test_thirty_plans_eight_at_once_in_a_fresh_home_leave_nothing(program: Program) -> None:
    program.server.responder = answer
    ended: list[PlanResult] = []
    limit = anyio.CapacityLimiter(AT_ONCE)

    async def one() -> None:
        async with limit:
            ended.append(await ran(program, MADE, functions={"a": greet}))

    async def all_of(count: int) -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(count):
                tasks.start_soon(one)

    await all_of(1)
    tasks, descriptors, children = kept()
    await all_of(30)

    assert {result.status for result in ended} == {"completed"}
    assert len({result.plan_id for result in ended}) == 31
    left_tasks, left_descriptors, left_children = kept()
    assert (left_tasks, left_children) == (tasks, children)
    with anyio.move_on_after(10):
        while not left_descriptors <= descriptors:  # the model server, in threads, closes its ends a moment later
            await anyio.sleep(0.01)
            _, left_descriptors, _ = kept()
    assert left_descriptors <= descriptors


async def test_two_homes_with_two_configurations_do_not_meet(tmp_path: Path) -> None:
    ended: dict[str, PlanResult] = {}

    async def one(name: str) -> None:
        home = Home(folder=tmp_path / name, environ={**ENVIRON, "SERVED_KEY": name, "HOME": str(tmp_path)})
        ended[name] = await run_plan(MADE, home=home, workdir=tmp_path, functions={"a": greet})

    with ModelServer() as here, ModelServer() as there, anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for name, server in (("here", here), ("there", there)):
                (tmp_path / name).mkdir()
                (tmp_path / name / "config.toml").write_text(CONFIG.format(api_base=server.api_base))
                server.enqueue(Reply(text=f"done {name}"))
                tasks.start_soon(one, name)

    for name, server in (("here", here), ("there", there)):
        assert ended[name].steps["c"].summary.strip() == f"done {name}"
        assert [request.headers["authorization"] for request in server.requests] == [f"Bearer {name}"]
        assert [path.name for path in (tmp_path / name / "plans").iterdir()] == [ended[name].plan_id]
