"""Steps in worktrees of their own, run by the installed command in real repositories.

Covers ``subagents.worktree``.
"""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import VIBE, VibeCommand, command_step, stop_at_once
from tests.e2e.test_docs import blocks
from tests.fakes.waiting import until

CODE = "def greet():\n    return 'hello'\n\n\ndef part():\n    return 'bye'\n"


def git(folder: Path, *words: str) -> str:
    """Run git in a folder, as the tests' user."""
    ended = subprocess.run(["git", *words], cwd=folder, capture_output=True, check=True, env=None)
    return ended.stdout.decode("utf-8", "surrogateescape")


@pytest.fixture
def repo(vibe: VibeCommand) -> Path:
    """Create a repository with two committed files as the command's workspace."""
    root = vibe.workdir
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.name", "Ada")
    git(root, "config", "user.email", "ada@example.org")
    (root / "app.py").write_text(CODE)
    (root / "notes.txt").write_text("one\n")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "start")
    return root


def worktree_step(step_id: str, command: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return a step with a worktree: a command, or an agent's step."""
    own = {"mode": "run", "command": command} if command else {"mode": "code", "prompt": f"Do {step_id}."}
    return {"id": step_id, "title": f"Step {step_id}", "workspace": "worktree", **own, **fields}


def plan_file(vibe: VibeCommand, *steps: dict[str, Any], **fields: Any) -> str:
    """Write a plan beside the workspace, which stays clean, and return its path."""
    path = vibe.workdir.parent / "plan.json"
    path.write_text(json.dumps({"version": 1, "goal": "Try worktrees", "steps": list(steps), **fields}))
    return str(path)


def nothing_is_left(vibe: VibeCommand) -> None:
    """Check that no worktree, branch, lock or folder of ours is left."""
    root = vibe.workdir
    assert git(root, "worktree", "list").count("\n") == 1
    assert git(root, "for-each-ref", "refs/heads/vibe") == ""
    assert not list((root / ".git").glob("vibe*"))
    assert not (root / ".git" / "index.lock").exists()
    assert not list(vibe.home.glob("plans/*/worktrees"))


def test_an_edit_in_the_second_of_a_commit_is_carried_along_and_stays_visible_to_git(
    vibe: VibeCommand, repo: Path
) -> None:
    notes, index = repo / "notes.txt", repo / ".git" / "index"

    def edited_in_the_second_of_the_index() -> bool:
        notes.write_text("one\n")
        committed = notes.stat().st_mtime
        git(repo, "update-index", "notes.txt")
        with notes.open("r+") as file:
            file.write("two")  # as long as before, in the same file
        return int(committed) == int(index.stat().st_mtime) == int(notes.stat().st_mtime)

    until(edited_in_the_second_of_the_index)
    until(lambda: time.time() >= int(notes.stat().st_mtime) + 1)

    ended = vibe("plan", "run", "--allow-dirty", plan_file(vibe, worktree_step("a", "cp notes.txt seen.txt")))

    assert ended.code == 0, ended.err
    assert (repo / "seen.txt").read_text() == "two\n"
    assert git(repo, "status", "--short") == " M notes.txt\n"


def test_steps_side_by_side_are_merged_into_the_branch(vibe: VibeCommand, repo: Path) -> None:
    plan = plan_file(
        vibe,
        worktree_step("a", "sed -i s/hello/hi/ app.py"),
        worktree_step("b", "sed -i s/bye/ciao/ app.py; echo new > new.txt"),
        worktree_step("c", "cat app.py new.txt > seen.txt", depends_on=["a", "b"]),
    )

    ended = vibe("plan", "run", "--output", "json", plan)

    assert ended.code == 0, ended.out + ended.err
    assert (repo / "app.py").read_text() == CODE.replace("hello", "hi").replace("bye", "ciao")
    assert (repo / "seen.txt").read_text() == (repo / "app.py").read_text() + "new\n"
    assert git(repo, "status", "--porcelain") == ""
    assert [step["files_changed"] for step in ended.document["steps"]] == [
        ["app.py"],
        ["app.py", "new.txt"],
        ["seen.txt"],
    ]
    assert git(repo, "log", "--merges", "--format=%an").split() == ["Ada"] * 3
    nothing_is_left(vibe)


def editing(path: str, content: str, **extra: Any) -> dict[str, Any]:
    """Script an agent that reads a file, replaces its content, and says so."""
    return {
        "turns": [
            {"tool_calls": [{"name": "read_file", "arguments": {"path": path}}], **extra},
            {
                "tool_calls": [
                    {"name": "write_file", "arguments": {"path": path, "content": content, "overwrite": True}}
                ]
            },
            {"text": f"{path} is written."},
        ]
    }


def test_agents_in_processes_of_their_own_are_merged_too(vibe: VibeCommand, repo: Path) -> None:
    vibe.replay({"agents": {"a": editing("app.py", CODE.upper()), "b": editing("notes.txt", "two\n")}})
    plan = plan_file(vibe, worktree_step("a"), worktree_step("b", verify=["grep -q two notes.txt"]))

    ended = vibe("plan", "run", "--auto-approve", "--executor", "process", "--output", "json", plan)

    assert ended.code == 0, ended.out + ended.err
    assert ((repo / "app.py").read_text(), (repo / "notes.txt").read_text()) == (CODE.upper(), "two\n")
    assert git(repo, "status", "--porcelain") == ""
    assert git(repo, "log", "--merges", "--oneline").count("\n") == 2
    nothing_is_left(vibe)


HI = CODE.replace("hello", "hi")
HEY = CODE.replace("hello", "hey")
BOTH = CODE.replace("hello", "hi, hey")


@pytest.mark.parametrize("executor", ["local", "process"])
def test_a_conflict_is_resolved_by_a_subagent_and_other_changes_are_let_be(
    vibe: VibeCommand, repo: Path, executor: str
) -> None:
    vibe.replay({
        "agents": {
            "a": editing("app.py", HI),
            "b": editing("app.py", HEY),
            "*:merge1": editing("app.py", BOTH),
        }
    })
    (repo / "notes.txt").write_text("one\nmine\n")
    (repo / "staged.txt").write_text("mine too\n")
    git(repo, "add", "staged.txt")
    check = "grep -q hi app.py || grep -q hey app.py"
    plan = plan_file(vibe, worktree_step("a", verify=[check]), worktree_step("b", verify=[check]))

    refused = vibe("plan", "run", "--auto-approve", plan)
    words = ("--auto-approve", "--allow-dirty", "--executor", executor)
    ended = vibe("plan", "run", *words, "--output", "streaming", plan)

    assert (refused.code, "'notes.txt', 'staged.txt'" in refused.err, "--allow-dirty" in refused.err) == (2, True, True)
    assert ended.code == 0, ended.out + ended.err
    assert (repo / "app.py").read_text() == BOTH
    assert git(repo, "status", "--porcelain") == " M notes.txt\nA  staged.txt\n"
    assert (repo / "notes.txt").read_text() == "one\nmine\n"
    assert git(repo, "show", "HEAD:app.py") == BOTH
    assert git(repo, "show", "HEAD:notes.txt") == "one\n"
    assert git(repo, "log", "--format=", "--name-only", "-m", "HEAD~2..HEAD").split() == ["app.py"] * 4
    hosted = [line["arguments"] for line in ended.lines if line["type"] == "tool.call" and line["tool"] == "command"]
    assert hosted == [{"command": check, "purpose": "verify"}] * 3, "once for each step, and again for the merge"
    prompts = [line["text"] for line in ended.lines if line["type"] == "user.message"]
    resolving = next(prompt for prompt in prompts if "clashes" in prompt)
    assert "- 'app.py'" in resolving
    assert "Step a" in resolving
    assert "Step b" in resolving
    assert sum(agent["usage"]["calls"] for agent in ended.lines[-1]["agents"]) == ended.lines[-1]["usage"]["calls"] == 9
    nothing_is_left(vibe)


@pytest.mark.parametrize("kind", ["marks are left", "the checks fail", "nobody resolves it"])
def test_a_conflict_that_stays_fails_the_step_and_keeps_its_branch(vibe: VibeCommand, repo: Path, kind: str) -> None:
    resolver = {
        "marks are left": {"turns": [{"text": "I had rather not."}]},
        "the checks fail": editing("app.py", CODE),
        "nobody resolves it": {"turns": [{"fault": {"error": "request"}}]},
    }[kind]
    vibe.replay({"agents": {"a": editing("app.py", HI), "b": editing("app.py", HEY), "*:merge*": resolver}})
    check = "grep -q hi app.py || grep -q hey app.py"
    plan = plan_file(vibe, worktree_step("a", verify=[check]), worktree_step("b", verify=[check]))

    ended = vibe("plan", "run", "--auto-approve", "--output", "json", plan)

    first, last = sorted(ended.document["steps"], key=lambda step: step["status"])
    plan_id = ended.document["plan_id"]
    assert (ended.code, first["status"], last["status"]) == (1, "completed", "failed")
    assert last["reason"] == "merge"
    assert f"its work is kept on branch vibe/{plan_id}/{last['id']}" in last["detail"]
    merged, kept = (HI, HEY) if first["id"] == "a" else (HEY, HI)
    assert (repo / "app.py").read_text() == merged
    assert git(repo, "status", "--porcelain") == ""
    assert git(repo, "show", f"vibe/{plan_id}/{last['id']}:app.py") == kept
    assert git(repo, "worktree", "list").count("\n") == 1

    shown = vibe("plan", "clean", "--all", "--dry-run")
    assert f"vibe/{plan_id}/{last['id']}" in shown.out
    assert git(repo, "branch", "--list", "vibe/*") != ""
    cleaned = vibe("plan", "clean", plan_id)
    assert (cleaned.code, f"vibe/{plan_id}/{last['id']}" in cleaned.out) == (0, True), cleaned.err
    nothing_is_left(vibe)


@pytest.mark.parametrize(
    ("key", "attributes"), [("filter.x.smudge", "* filter=x"), ("merge.x.driver", "* merge=x"), ("include.path", "")]
)
def test_programs_an_untrusted_repository_chose_for_git_do_not_run(
    vibe: VibeCommand, repo: Path, key: str, attributes: str
) -> None:
    (repo / "driver").write_text(f"[filter \"x\"]\n\tsmudge = sh -c 'touch {repo.parent}/ran; cat'\n")
    (repo / ".gitattributes").write_text(f"{attributes}\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "more")
    git(repo, "config", key, str(repo / "driver") if key == "include.path" else f"sh -c 'touch {repo.parent}/ran; cat'")
    plan = plan_file(vibe, worktree_step("a", "echo a > a.txt"))

    refused = vibe("plan", "run", "--auto-approve", plan)

    named = "filter.x.smudge" if key == "include.path" else key
    assert (refused.code, named in refused.err, "vibe trust add" in refused.err) == (2, True, True), refused.err
    assert not (repo.parent / "ran").exists()
    trusted = vibe("plan", "run", "--auto-approve", "--trust", plan)
    # Anyone who works in the folder can write an included file, even if the user trusts it.
    assert (trusted.code, "included file" in trusted.err) == ((2, True) if key == "include.path" else (0, False))


def test_who_mends_the_plan_is_told_where_the_failed_steps_work_is(vibe: VibeCommand, repo: Path) -> None:
    no: dict[str, Any] = {"name": "hand_in_revision", "arguments": {"value": {"reason": "hopeless", "operations": []}}}
    vibe.replay({"agents": {"planner": {"turns": [{"tool_calls": [no]}]}}})
    plan = plan_file(vibe, worktree_step("a", "echo half > half.txt; exit 3", on_failure="replan"))

    ended = vibe("plan", "run", "--output", "streaming", plan)

    branch = git(repo, "for-each-ref", "--format=%(refname:short)", "refs/heads/vibe").strip()
    (plan_id,) = vibe.plan_ids()
    told = next(line["text"] for line in ended.lines if line["type"] == "user.message")
    assert (ended.code, branch) == (1, f"vibe/{plan_id}/a")
    assert f"on the branch {branch}, and you can read it" in told
    assert "- 'half.txt'" in told
    assert not list(vibe.home.glob("plans/*/worktrees"))


def test_a_command_that_clashes_has_its_conflict_resolved_too(vibe: VibeCommand, repo: Path) -> None:
    vibe.replay({"agents": {"*:merge1": editing("app.py", BOTH)}})
    plan = plan_file(
        vibe, worktree_step("a", "sed -i s/hello/hi/ app.py"), worktree_step("b", "sed -i s/hello/hey/ app.py")
    )

    ended = vibe("plan", "run", "--auto-approve", "--output", "json", plan)

    assert ended.code == 0, ended.out + ended.err
    assert (repo / "app.py").read_text() == BOTH
    nothing_is_left(vibe)


def test_without_a_key_a_clash_of_commands_is_a_failed_merge_that_keeps_the_branch(
    vibe: VibeCommand, repo: Path
) -> None:
    vibe.configure('active_model = "m"\n[[providers]]\nname = "p"\napi_base = "http://127.0.0.1:9/v1"\n'
                   'api_key_env_var = "NO_SUCH_KEY"\n[[models]]\nname = "m"\nprovider = "p"\n')  # fmt: skip
    plan = plan_file(
        vibe, worktree_step("a", "sed -i s/hello/hi/ app.py"), worktree_step("b", "sed -i s/hello/hey/ app.py")
    )

    ended = vibe("plan", "run", "--output", "json", plan)

    (failed,) = [step for step in ended.document["steps"] if step["status"] == "failed"]
    assert (ended.code, failed["reason"]) == (1, "merge")
    assert "conflicts in 'app.py' are not resolved: no API key for provider 'p'" in failed["detail"]
    assert git(repo, "for-each-ref", "--format=%(refname:short)", "refs/heads/vibe").strip() in failed["detail"]


def test_a_clash_that_the_plan_has_no_budget_to_resolve_is_limited_work(vibe: VibeCommand, repo: Path) -> None:
    vibe.replay({"agents": {"*:merge1": editing("app.py", BOTH)}})
    lines = {"a": "sed -i s/hello/hi/ app.py", "b": "sed -i s/hello/hey/ app.py"}
    steps = [worktree_step(name, line, on_failure="continue") for name, line in lines.items()]

    ended = vibe("plan", "run", "--auto-approve", plan_file(vibe, *steps, budget={"max_tokens": 500}))

    assert (ended.code, "are not resolved: the budget of the plan is used up: max_tokens 500" in ended.out) == (4, True)
    assert vibe("plan", "edit", "latest", "--max-tokens", "500000").code == 0
    resumed = vibe("plan", "resume", "latest", "--auto-approve")
    assert (resumed.code, "hello" in (repo / "app.py").read_text()) == (0, False)


def test_two_plans_at_once_in_one_repository(vibe: VibeCommand, repo: Path) -> None:
    steps = [worktree_step(f"s{n}", f"echo $$ > {{}}{n}.txt") for n in range(4)]
    plans: list[str] = []
    for name in "xy":
        path = vibe.workdir.parent / f"{name}.json"
        own = [{**step, "command": step["command"].format(name)} for step in steps]
        path.write_text(json.dumps({"version": 1, "goal": name, "steps": own}))
        plans.append(str(path))

    running = [vibe.start("plan", "run", "--allow-dirty", "--output", "json", plan) for plan in plans]
    ends = [process.communicate(timeout=120) for process in running]

    assert [process.returncode for process in running] == [0, 0], ends
    assert sorted(path.name for path in repo.glob("[xy]*.txt")) == sorted(f"{p}{n}.txt" for p in "xy" for n in range(4))
    assert git(repo, "status", "--porcelain") == ""
    assert git(repo, "log", "--merges", "--oneline").count("\n") == 8
    nothing_is_left(vibe)


def test_a_killed_run_goes_on_in_the_same_worktree_and_leaves_nothing(vibe: VibeCommand, repo: Path) -> None:
    started, go = vibe.workdir.parent / "started", vibe.workdir.parent / "go"
    slow = f"touch {started}; while [ ! -e {go} ]; do sleep 0.05; done"
    vibe.replay({
        "agents": {
            "a": {
                "turns": [
                    {"tool_calls": [{"name": "write_file", "arguments": {"path": "new.txt", "content": "kept\n"}}]},
                    {"tool_calls": [{"name": "bash", "arguments": {"command": slow}}]},
                    {"text": "Done."},
                ]
            }
        }
    })
    plan = plan_file(vibe, worktree_step("a", verify=["grep -q kept new.txt"]))
    vibe.configure((vibe.home / "config.toml").read_text() + '[sandbox]\nmode = "off"\n')
    process = vibe.start("plan", "run", "--auto-approve", plan)
    until(lambda: started.exists() or process.poll() is not None)
    process.kill()
    process.wait()
    go.touch()
    (plan_id,) = vibe.plan_ids()
    assert not (repo / "new.txt").exists()

    ended = vibe("plan", "resume", plan_id, "--output", "json")

    assert ended.code == 0, ended.out + ended.err
    assert ended.document["usage"]["calls"] == 4, "the call that was cut off is asked for again, nothing before it"
    assert (repo / "new.txt").read_text() == "kept\n"
    assert git(repo, "log", "--merges", "--oneline").count("\n") == 1
    nothing_is_left(vibe)


@pytest.mark.parametrize("words", [["cancel"], ["skip", "b"]])
def test_of_a_plan_killed_after_a_merge_no_command_calls_that_step_undone(
    vibe: VibeCommand, repo: Path, words: list[str]
) -> None:
    steps = [worktree_step("a", "echo > a.txt"), worktree_step("b", "echo > b.txt", depends_on=["a"])]
    assert vibe("plan", "run", plan_file(vibe, *steps)).code == 0
    [journal] = vibe.home.glob("plans/*/journal.jsonl")
    lines = journal.read_text().splitlines(keepends=True)
    begun = next(n for n, line in enumerate(lines) if '"step_id":"b"' in line and '"status":"in_progress"' in line)
    journal.write_text("".join(lines[: begun + 1]))  # what a kill leaves that comes before the attempt is recorded
    (journal.parent / "state.json").unlink()

    vibe("plan", words[0], "latest", *words[1:])

    [plan] = json.loads(vibe("plan", "list", "--output", "json").out)
    assert plan["counts"] == {"completed": 2}
    assert (repo / "b.txt").exists()
    nothing_is_left(vibe)


def test_a_paused_plan_keeps_its_worktree_and_is_not_cleaned(vibe: VibeCommand, repo: Path) -> None:
    started = vibe.workdir.parent / "started"
    plan = plan_file(vibe, worktree_step("a", f"echo half > half.txt; touch {started}; exec sleep 600"))
    process = vibe.start("plan", "run", plan)
    until(lambda: started.exists() or process.poll() is not None)
    stop_at_once(process)
    (plan_id,) = vibe.plan_ids()

    refused = vibe("plan", "clean", plan_id)
    everything = vibe("plan", "clean", "--all")

    assert (refused.code, "can be resumed" in refused.err) == (2, True), refused.err
    assert (everything.code, f"{plan_id}: left alone" in everything.out) == (0, True)
    assert (vibe.home / "plans" / plan_id / "worktrees" / "a" / "half.txt").exists()
    assert git(repo, "status", "--porcelain") == ""
    cancelled = vibe("plan", "cancel", plan_id)
    branch = f"vibe/{plan_id}/a"
    said = f"cancelled; it was not running; unmerged work is kept on {branch}"
    assert cancelled.code == 0, cancelled.err
    assert cancelled.out == f"plan {plan_id}: {said}; remove with `vibe plan clean {plan_id}`\n"
    assert git(repo, "worktree", "list").count("\n") == 1
    assert git(repo, "show", f"{branch}:half.txt") == "half\n"
    assert vibe("plan", "clean", plan_id).code == 0
    nothing_is_left(vibe)


def test_what_a_plan_left_whose_folder_was_deleted_is_found_in_the_repository(vibe: VibeCommand, repo: Path) -> None:
    started = vibe.workdir.parent / "started"
    plan = plan_file(
        vibe,
        worktree_step("done", "echo half > half.txt; exit 1"),
        worktree_step("cut", f"touch {started}; exec sleep 600"),
    )
    process = vibe.start("plan", "run", "--max-parallel", "1", plan)
    until(lambda: started.exists() or process.poll() is not None)
    stop_at_once(process)
    (plan_id,) = vibe.plan_ids()
    shutil.rmtree(vibe.home / "plans" / plan_id)
    git(repo, "branch", "vibe/mine")
    git(repo, "branch", f"vibe/{plan_id}/UPPER")
    unmerged, cut = f"vibe/{plan_id}/done", f"vibe/{plan_id}/cut"

    shown = vibe("plan", "clean", "--all", "--dry-run")
    swept = vibe("plan", "clean", "--all")
    left = git(repo, "for-each-ref", "--format=%(refname:short)", "refs/heads/vibe").split()
    named = vibe("plan", "clean", plan_id)

    assert (shown.code, swept.code, named.code) == (0, 0, 0), shown.err + swept.err + named.err
    assert shown.out == swept.out.replace("removed", "would remove")
    assert f"removed worktree {vibe.home / 'plans' / plan_id / 'worktrees' / 'cut'}\n" in swept.out
    assert f"removed branch {cut}\n" in swept.out
    assert f"{plan_id}: left alone, {unmerged} holds unmerged work" in swept.out
    assert f"`vibe plan clean {plan_id}` removes it" in swept.out
    assert git(repo, "worktree", "list").count("\n") == 1
    assert sorted(left) == sorted([f"vibe/{plan_id}/UPPER", unmerged, "vibe/mine"])
    assert named.out == f"{plan_id}: removed branch {unmerged}\n"
    assert git(repo, "for-each-ref", "--format=%(refname:short)", "refs/heads/vibe").split() == [
        f"vibe/{plan_id}/UPPER", "vibe/mine",
    ]  # fmt: skip
    assert vibe("plan", "clean", plan_id).code == 2


def test_the_guides_plan_runs(vibe: VibeCommand, repo: Path) -> None:
    plan = vibe.workdir.parent / "plan.json"
    plan.write_text(blocks("docs/guide/worktrees.md", "json")[0].text)

    ended = vibe("plan", "run", str(plan))

    assert ended.code == 0, ended.out + ended.err
    assert "greeting" in (repo / "app.py").read_text()
    assert vibe("plan", "clean", "--all").out == "nothing to clean\n"


WANTED = '[worktree]\nsetup = ["echo made > out"]\nshare = ["node_modules"]\n'


@pytest.mark.parametrize("where", ["home", "trusted", "untrusted"])
def test_worktrees_are_set_up_as_a_configuration_says_that_the_user_trusts(
    vibe: VibeCommand, repo: Path, where: str
) -> None:
    (repo / ".gitignore").write_text("node_modules/\nout\n.vibe\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "ignore")
    (repo / "node_modules").mkdir()
    (repo / "node_modules" / "x").write_text("shared\n")
    (repo / ".vibe").mkdir()
    if where == "home":
        vibe.configure(WANTED)
    else:
        (repo / ".vibe" / "config.toml").write_text(WANTED)
    trust = ["--trust"] if where == "trusted" else []
    plan = plan_file(vibe, worktree_step("a", "cat out node_modules/x > seen.txt || ls > seen.txt"))

    ended = vibe("plan", "run", "--auto-approve", *trust, plan)

    assert ended.code == 0, ended.err
    seen = (repo / "seen.txt").read_text()
    assert seen == ("app.py\nnotes.txt\nseen.txt\n" if where == "untrusted" else "made\nshared\n")
    assert git(repo, "ls-files").split() == [".gitignore", "app.py", "notes.txt", "seen.txt"]
    nothing_is_left(vibe)


def test_what_is_shared_is_below_the_workspace(vibe: VibeCommand, repo: Path) -> None:
    vibe.configure('[worktree]\nshare = ["../elsewhere"]\n')
    refused = vibe("plan", "run", plan_file(vibe, worktree_step("a", "true")))
    assert (refused.code, "worktree.share" in refused.err, "below the workspace" in refused.err) == (2, True, True)
    assert repo.is_dir()


DISK = """
mkdir disk; mount -t tmpfs -o size=6m none disk
cd disk; git init -q; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m first
head -c {filler} /dev/zero > .git/filler
{vibe} plan run --output json {plan} > ../first.json; echo $?
test -e big; echo $?
rm .git/filler
{vibe} plan resume latest --output json > ../second.json; echo $?
cmp big ../big && git log --oneline | wc -l
"""


@pytest.mark.parametrize("filler", [4_500_000, 9_000_000])  # full at the commit; before the worktree, git says not why
def test_a_disk_that_is_full_pauses_the_plan_and_the_step_goes_on(vibe: VibeCommand, filler: int) -> None:
    (vibe.workdir / "big").write_bytes(random.Random(1).randbytes(1_800_000))
    copied = f"cp {vibe.workdir}/big big"
    plan = plan_file(vibe, worktree_step("a", copied), command_step("b", "test -e big", depends_on=["a"]))
    line = DISK.format(vibe=VIBE, plan=plan, filler=filler)

    ended = subprocess.run(
        ["unshare", "-m", "bash", "-c", line],
        cwd=vibe.workdir, env=vibe.variables(), capture_output=True, text=True, check=False,
    )  # fmt: skip

    first, second = (json.loads((vibe.workdir / f"{name}.json").read_text()) for name in ("first", "second"))
    assert ended.stdout.split() == ["3", "1", "0", "3"], ended.stderr
    assert (first["reason"], first["steps"][0]["status"]) == ("environment", "pending")
    assert "No space left" in first["result"]
    assert {step["status"] for step in second["steps"]} == {"completed"}
