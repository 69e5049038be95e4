"""Kill a process at its n-th system call in a worktree step, resume the plan, and compare the result.

``python -m tests.integration.subagents.worktree.crashes FOLDER SCENARIO FIRST STEP`` kills at call FIRST, FIRST + STEP
... until a run gets through. It prints what differs from an undisturbed run, one difference on each line. In the
scenario ``given up`` the plan is not resumed: the user's files must then be as before, or all merged, and no worktree
may be left. Scenarios that end with ``again`` have a second step, which takes over the worktree of the first.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio

from subagents.executor import StepResult
from tests.integration.subagents.worktree.rig import EditingExecutor, Rig, git, worktree_task
from vibe.app.plan.clean import give_up_worktrees
from vibe.core.messages import NeverStop, Outcome

CHANGING = ("os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "shutil.rmtree", "subprocess.Popen")
GIVEN_UP = "given up"
AGAIN = "again"
LINES = "".join(f"{number}\n" for number in range(1, 30))


def edit(old: str, new: str, name: str = "a.txt") -> Callable[[Path], None]:
    """Return an edit that replaces a line, unless it was replaced before."""

    def change(folder: Path) -> None:
        path = folder / name
        path.write_text(path.read_text().replace(f"\n{old}\n", f"\n{new}\n"))

    return change


def many(folder: Path) -> None:
    """Change, add and remove files."""
    edit("9", "nine")(folder)
    (folder / "gone.txt").unlink(missing_ok=True)
    (folder / "deep" / "er").mkdir(parents=True, exist_ok=True)
    (folder / "deep" / "er" / "new.txt").write_text("new\n")


def resolve(folder: Path) -> None:
    """Resolve a conflict by keeping the words of both sides."""
    (folder / "a.txt").write_text(LINES.replace("\n9\n", "\nneun nine\n"))


def prepare(rig: Rig, scenario: str) -> None:
    """Create the repository as it is when the step starts."""
    rig.create({"a.txt": LINES, "gone.txt": "bye\n", "b.txt": "b\n"})
    if scenario == "dirty":
        rig.write({"a.txt": LINES.replace("\n20\n", "\nmine\n"), "b.txt": "staged\n", "untracked.txt": "mine\n"})
        git(rig.root, "add", "b.txt")


def inner(rig: Rig, scenario: str) -> EditingExecutor:
    """Return the executor of the step, which also resolves its conflict."""

    def work(folder: Path) -> None:
        many(folder)
        if scenario == "conflict" and "meanwhile" not in git(rig.root, "log", "--format=%s"):
            rig.write({"a.txt": LINES.replace("\n9\n", "\nneun\n")})
            rig.commit("meanwhile")

    def more(folder: Path) -> None:
        assert (folder / "deep" / "er" / "new.txt").read_text() == "new\n"
        edit("20", "twenty")(folder)
        (folder / "b.txt").unlink(missing_ok=True)

    return EditingExecutor({"s": work, "s:merge1": resolve, "s:merge2": resolve, "t": more})


def steps(scenario: str) -> list[str]:
    """Return the ids of a scenario's steps."""
    return ["s", "t"] if scenario.endswith(AGAIN) else ["s"]


async def go_on(rig: Rig, scenario: str) -> list[StepResult]:
    """Start or resume the plan, as a process does."""
    async with rig.executor(inner(rig, scenario)) as executor:
        await executor.recover()
        results = [await executor.run(worktree_task(step_id), NeverStop()) for step_id in steps(scenario)]
        await executor.clear(steps(scenario))
        return results


def outcome(rig: Rig) -> dict[str, object]:
    """Return everything that must be the same whether a process was killed or not."""
    files = sorted(path for path in rig.root.rglob("*") if path.is_file() and ".git" not in path.parts)
    return {
        "files": {str(path.relative_to(rig.root)): path.read_text() for path in files},
        "status": rig.status(),
        "commits": git(rig.root, "log", "--topo-order", "--format=%s").splitlines(),
        "tree": git(rig.root, "rev-parse", "HEAD^{tree}"),
        "left": rig.leftovers(),
    }


def in_child(act: Callable[[], None]) -> int:
    """Run ``act`` in a child process and return its exit code."""
    pid = os.fork()
    if pid == 0:
        try:
            act()
        except BaseException:  # noqa: BLE001  a forked child must not go on as its parent
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def run_to_the_end(rig: Rig, scenario: str) -> None:
    """Run the steps undisturbed."""
    results = anyio.run(go_on, rig, scenario)
    assert all(result.outcome is Outcome.COMPLETED for result in results), results


def give_up(rig: Rig) -> None:
    """Give up the worktrees, as a process does that cancels the plan."""
    give_up_worktrees(rig.repository(), rig.place())


def given_up(rig: Rig) -> dict[str, object]:
    """Return everything that must be the same as before the step, or as after it."""
    seen = outcome(rig)
    trees = git(rig.root, "worktree", "list").splitlines()[1:]
    return {**{key: seen[key] for key in ("files", "status", "commits", "tree")}, "trees": trees}


def run_until(rig: Rig, scenario: str, count: int) -> None:
    """Run, and be killed just before the ``count``-th call that changes something."""
    left = count

    def hook(event: str, args: tuple[object, ...]) -> None:
        nonlocal left
        writes = event == "open" and isinstance(args[1], str) and "w" in args[1]
        if event in CHANGING or writes:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    anyio.run(go_on, rig, scenario)


def main(base: Path, scenario: str, first: int, step: int) -> None:
    """Kill at every ``step``-th call, and print the differences."""
    template = Rig(base / "template")
    prepare(template, scenario)

    def fresh(name: str) -> Rig:
        shutil.copytree(template.base, base / name, symlinks=True)
        return Rig(base / name)

    sound = fresh("sound")
    assert in_child(lambda: run_to_the_end(sound, scenario)) == 0
    look = given_up if scenario.startswith(GIVEN_UP) else outcome
    expected = [look(sound)]
    if scenario.startswith(GIVEN_UP):
        half = fresh("half")
        assert in_child(lambda: run_to_the_end(half, GIVEN_UP)) == 0
        expected += [look(template), look(half)]
    count, tried = first, 0
    while True:
        rig = fresh(f"at{count}")
        ended = in_child(lambda rig=rig, count=count: run_until(rig, scenario, count))
        if ended == 0:
            break
        tried += 1
        settle = partial(give_up, rig) if scenario.startswith(GIVEN_UP) else partial(run_to_the_end, rig, scenario)
        again = in_child(settle)
        got = look(rig)
        if ended != -signal.SIGKILL or again != 0 or got not in expected:
            differing = {key: got[key] for key in got if got[key] != expected[0][key]}
            sys.stdout.write(f"killed at {count} ({ended}, then {again}): {differing}\n")
        shutil.rmtree(rig.base)
        count += step
    sys.stdout.write(f"tried {tried}, all {count}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
