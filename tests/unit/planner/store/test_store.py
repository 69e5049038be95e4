from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import msgspec
import pytest
from anyio import to_thread
from pydantic import ValidationError

from planner.plan.status import PlanStatus, StepStatus
from planner.state.state import State
from planner.store.errors import (
    BrokenPlanError,
    PlanLockedError,
    StoreError,
    StoreWriteError,
    UnknownPlanError,
)
from planner.store.folder import (
    SETTINGS_FILE,
    PlanFolder,
    RunSettings,
    find_plan,
    list_plans,
    lock_plan,
    new_plan_id,
    plans_folder,
    plans_in,
)
from planner.store.store import PlanStore
from subagents.executor import StepResult
from tests.fakes.executor import completed
from tests.fakes.full_disk import file_size_limit
from tests.fakes.unprivileged import folder_of_nobody
from tests.unit.planner.facts import began, ended, finished, moved, took_up
from vibe.system.errors import EnvironmentFailure, UsageError

SOURCE = b'{ "version": 1,\n  "goal": "g\xc3\xb6al" }  \n'
SETTINGS = RunSettings(goal="a goal", workspace="/w", decisions={"d": ("x",)}, origin="plan.json")
HOLD_A_PLAN = """
import sys
from pathlib import Path
from planner.store.store import PlanStore
with PlanStore.open(Path(sys.argv[1]), sys.argv[2]):
    print("held", flush=True)
    sys.stdin.read()
"""


def active(**counts: int) -> State:
    return State(status=PlanStatus.ACTIVE, counts=Counter({StepStatus(name): count for name, count in counts.items()}))


def make(home: Path, plan_id: str = "") -> PlanStore:
    settings = SETTINGS.model_copy(update={"plan_id": plan_id})
    return PlanStore.create(home, settings, SOURCE)


def test_a_new_plan_keeps_its_document_byte_for_byte_and_its_settings(tmp_path: Path) -> None:
    with make(tmp_path) as store:
        folder = find_plan(tmp_path, store.plan_id)
        assert folder.source() == SOURCE
        settings = folder.settings()
        assert settings == store.settings
        assert settings.plan_id == store.plan_id
        assert settings.created == pytest.approx(time.time(), abs=60)
        assert settings.model_copy(update={"plan_id": "", "created": 0.0}) == SETTINGS


def test_plan_ids_end_with_their_day_and_differ_in_their_first_characters() -> None:
    ids = [new_plan_id(1_700_006_400 + second) for second in range(20)]

    assert all(re.fullmatch(r"[0-9a-f]{6}-20231115", plan_id) for plan_id in ids)
    assert len({plan_id[:4] for plan_id in ids}) > 15


def test_latest_is_the_plan_begun_last_whatever_its_id(tmp_path: Path) -> None:
    for plan_id, created in (("b-first", 1.0), ("a-last", 3.0), ("c-second", 2.0)):
        PlanStore.create(tmp_path, SETTINGS.model_copy(update={"plan_id": plan_id, "created": created}), SOURCE).close()

    assert find_plan(tmp_path, "latest").plan_id == "a-last"
    assert [plan.plan_id for plan in list_plans(tmp_path)] == ["b-first", "c-second", "a-last"]


def test_the_latest_of_a_workspace_is_found_past_broken_ones_and_those_of_others(tmp_path: Path) -> None:
    for age, (plan_id, workspace) in enumerate((("old", "/a"), ("new", "/a"), ("other", "/b"), ("broken", "/a"))):
        given = SETTINGS.model_copy(update={"plan_id": plan_id, "workspace": workspace})
        store = PlanStore.create(tmp_path, given, SOURCE)
        store.close()
        settings = find_plan(tmp_path, plan_id).path / SETTINGS_FILE
        if plan_id == "broken":
            settings.write_text("{")
        os.utime(settings, (age, age))
    found = next(plans_in(tmp_path, "/a"), None)
    assert found is not None
    assert found.plan_id == "new"
    assert [folder.plan_id for folder in plans_in(tmp_path, "/a")] == ["new", "old"]
    assert [folder.plan_id for folder in plans_in(tmp_path, "/a", 3)] == ["new"]
    assert next(plans_in(tmp_path, "/nowhere"), None) is None
    assert next(plans_in(tmp_path / "nothing", "/a"), None) is None


def test_there_is_no_latest_plan_where_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(UnknownPlanError, match=r"no plan has run yet in .*: start one with `vibe plan run FILE`"):
        find_plan(tmp_path, "latest")


def test_two_plans_of_one_second_get_different_ids(tmp_path: Path) -> None:
    ids: set[str] = set()
    for _ in range(30):
        with PlanStore.create(tmp_path, SETTINGS, SOURCE, now=lambda: 1e9) as store:
            ids.add(store.plan_id)
    assert len(ids) == 30


def test_an_id_that_is_taken_is_refused_and_leaves_the_first_plan_alone(tmp_path: Path) -> None:
    make(tmp_path, "mine").close()
    with pytest.raises(StoreError, match="'mine' already exists"):
        make(tmp_path, "mine")
    assert [path.name for path in plans_folder(tmp_path).iterdir()] == ["mine"]


def test_a_home_that_cannot_hold_a_folder_gives_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    with pytest.raises(StoreWriteError, match=r"cannot write .*home.*VIBE_HOME") as caught:
        make(tmp_path / "home")
    assert isinstance(caught.value, EnvironmentFailure)


def test_a_read_only_home_gives_one_sentence_and_nothing_is_made() -> None:
    with folder_of_nobody() as home:
        plans_folder(home).mkdir()
        plans_folder(home).chmod(0o500)
        with pytest.raises(StoreWriteError, match="Permission denied"):
            make(home)
        assert not list(plans_folder(home).iterdir())


def test_another_home_is_no_advice_about_a_plan_of_this_one() -> None:
    with folder_of_nobody() as home:
        make(home, "mine").close()
        (plans_folder(home) / "mine" / "lock").chmod(0o400)
        with pytest.raises(
            StoreWriteError, match=r"lock: Permission denied; free or permit space there, then try again$"
        ):
            PlanStore.open(home, "mine")


def test_plans_that_are_closed_to_this_user_are_to_be_opened_not_restored() -> None:
    with folder_of_nobody() as home:
        make(home).close()
        plans_folder(home).chmod(0)
        with pytest.raises(BrokenPlanError, match=r"plans: Permission denied; permit this user to read it$"):
            PlanStore.open(home, "latest")


@pytest.mark.parametrize("size", [0, 10, len(SOURCE), 100])
def test_a_full_disk_leaves_nothing_of_a_new_plan(tmp_path: Path, size: int) -> None:
    with file_size_limit(size), pytest.raises(StoreWriteError):
        make(tmp_path)
    assert not list(plans_folder(tmp_path).iterdir())
    assert list_plans(tmp_path) == []


@pytest.mark.parametrize("state", ["its maker died", "its maker is at work", "it is just being made"])
def test_a_draft_goes_with_the_next_plan_if_its_maker_died(tmp_path: Path, state: str) -> None:
    draft = plans_folder(tmp_path) / ".new-abc"
    draft.mkdir(parents=True)
    lock = lock_plan(draft / "lock", "new")
    if state == "its maker died":
        lock.release()
        (draft / "lock").write_text("1\n")
    elif state == "it is just being made":
        lock.release()
    make(tmp_path).close()
    lock.release()

    assert draft.exists() is (state != "its maker died")


def test_plans_that_begin_at_once_do_not_trip_over_each_others_drafts(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(make, [tmp_path] * 400))

    assert len({store.plan_id for store in made}) == len(list_plans(tmp_path)) == 400
    for store in made:
        store.close()


def test_drafts_of_dead_processes_are_not_listed_and_are_swept(tmp_path: Path) -> None:
    make(tmp_path, "one").close()
    draft = plans_folder(tmp_path) / ".new-abc"
    draft.mkdir()
    assert [plan.plan_id for plan in list_plans(tmp_path)] == ["one"]
    make(tmp_path, "two").close()
    assert draft.exists(), "its maker may still be alive"
    os.utime(draft, (1.0, 1.0))
    make(tmp_path, "three").close()
    assert not draft.exists()


def test_a_plan_is_found_by_a_unique_beginning_of_its_id(tmp_path: Path) -> None:
    for plan_id in ("20250101-aaaaaa", "20250101-abbbbb", "20250101-abbbbb2"):
        make(tmp_path, plan_id).close()
    assert find_plan(tmp_path, "20250101-aa").plan_id == "20250101-aaaaaa"
    assert find_plan(tmp_path, "20250101-abbbbb").plan_id == "20250101-abbbbb", "a whole id is never ambiguous"
    with pytest.raises(UsageError, match="matches 3 plans"):
        find_plan(tmp_path, "2025")
    for reference in ("2026", "", "..", "../plans/20250101-aaaaaa", "."):
        with pytest.raises(UnknownPlanError, match="vibe plan list"):
            find_plan(tmp_path, reference)
    assert issubclass(UnknownPlanError, UsageError)


def test_a_second_process_hears_who_runs_the_plan(tmp_path: Path) -> None:
    with make(tmp_path) as store:
        plan_id = store.plan_id
    command = [sys.executable, "-c", HOLD_A_PLAN, str(tmp_path), plan_id]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        with pytest.raises(PlanLockedError) as caught:
            PlanStore.open(tmp_path, plan_id)
        assert str(caught.value) == f"plan {plan_id} is being run by process {child.pid}; stop it first or wait"
        assert list_plans(tmp_path)[0].holder == child.pid
        assert find_plan(tmp_path, plan_id).state().status is PlanStatus.IDLE, "reading needs no lock"
        child.kill()
    assert list_plans(tmp_path)[0].holder is None
    PlanStore.open(tmp_path, plan_id).close()


def test_the_lock_holds_within_a_process_too_and_ends_with_the_store(tmp_path: Path) -> None:
    store = make(tmp_path)
    with pytest.raises(PlanLockedError, match=f"process {os.getpid()};"):
        PlanStore.open(tmp_path, store.plan_id)
    store.close()
    store.close()
    PlanStore.open(tmp_path, store.plan_id).close()


def test_a_plan_that_cannot_be_opened_is_not_left_locked(tmp_path: Path) -> None:
    with make(tmp_path) as store:
        folder = store.folder
    (folder.path / "run.json").write_text("{")
    with pytest.raises(BrokenPlanError, match=r"run\.json"):
        PlanStore.open(tmp_path, folder.plan_id)
    lock_plan(folder.path / "lock", folder.plan_id).release()


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ("{", "Invalid JSON"),
        ('{"workspace": "/w", "colour": 1}', "colour: Extra inputs"),
        ('{"workspace": "/w", "version": 2}', "has a version this vibe can't read"),
        ('{"workspace": "/w", "max_parallel": 0}', "max_parallel:"),
        ('{"workspace": "/w\\u0000"}', "workspace:"),
        ("\x00\x00\x00", "Invalid JSON"),
    ],
)
def test_broken_settings_name_the_file_and_the_field(tmp_path: Path, document: str, problem: str) -> None:
    with make(tmp_path) as store:
        path = store.folder.path / "run.json"
    path.write_text(document)
    with pytest.raises(BrokenPlanError) as caught:
        store.folder.settings()
    assert str(path) in str(caught.value)
    assert problem in str(caught.value)


def test_a_list_survives_broken_folders_and_says_what_is_the_matter(tmp_path: Path) -> None:
    for plan_id in ("a-sound", "b-no-settings", "c-torn-state", "d-broken-journal"):
        make(tmp_path, plan_id).close()
    root = plans_folder(tmp_path)
    (root / "b-no-settings" / "run.json").unlink()
    (root / "c-torn-state" / "state.json").write_bytes(b'{"plan_id": "c-to')
    (root / "d-broken-journal" / "journal.jsonl").write_bytes(b"nonsense\nmore\n")
    (root / "e-empty").mkdir()
    (root / "a-file").write_text("not a plan")
    plans = {plan.plan_id: plan for plan in list_plans(tmp_path)}
    assert sorted(plans) == ["a-sound", "b-no-settings", "c-torn-state", "d-broken-journal", "e-empty"]
    assert plans["a-sound"].problem is None
    assert plans["a-sound"].goal == "a goal"
    assert plans["c-torn-state"].problem is None, "the snapshot is never the truth"
    assert plans["c-torn-state"].status is PlanStatus.IDLE
    assert "run.json: is missing" in str(plans["b-no-settings"].problem)
    assert "journal.jsonl:1" in str(plans["d-broken-journal"].problem)
    assert "is missing" in str(plans["e-empty"].problem)


def test_a_home_without_plans_lists_none(tmp_path: Path) -> None:
    assert list_plans(tmp_path / "nowhere") == []


def test_the_snapshot_is_what_a_list_shows(tmp_path: Path) -> None:
    with PlanStore.create(tmp_path, SETTINGS, SOURCE, now=lambda: 100.0) as store:
        store.write_snapshot(active(completed=3, pending=1))
        (plan,) = list_plans(tmp_path)
        assert (plan.status, plan.counts, plan.updated) == (PlanStatus.ACTIVE, {"completed": 3, "pending": 1}, 100.0)
        assert plan.holder == os.getpid()
        assert not plan.is_interrupted
        store.append(took_up(100.0), began("a"))
    (plan,) = list_plans(tmp_path)
    assert plan.is_interrupted, "active, and nobody runs it"
    assert plan.counts.get("in_progress", 0) == 0, "what it did ended with its process"
    assert plan.counts["pending"] == 1


def test_a_plan_that_ended_in_the_journal_has_ended_though_its_process_died_before_the_snapshot(tmp_path: Path) -> None:
    with PlanStore.create(tmp_path, SETTINGS, SOURCE) as store:
        store.write_snapshot(active(pending=1))
        store.append(finished(at=100.0))
    (plan,) = list_plans(tmp_path)
    assert (plan.status, plan.is_interrupted) == (PlanStatus.COMPLETED, False)


def test_a_result_is_written_whole_into_its_steps_folder(tmp_path: Path) -> None:
    result = StepResult(outcome=completed().outcome, summary="x" * 500, output={"a": [1, None]})
    with make(tmp_path) as store:
        store.write_result("s-1", result)
        path = store.folder.step_folder("s-1") / "result.json"
        assert msgspec.json.decode(path.read_bytes(), type=StepResult) == result
        with file_size_limit(100), pytest.raises(StoreWriteError, match=r"result\.json"):
            store.write_result("s-1", completed("y" * 500))
        assert msgspec.json.decode(path.read_bytes(), type=StepResult) == result, "the old one stays"
        assert [entry.name for entry in path.parent.iterdir()] == ["result.json"]
        assert store.step_folder("s-2").is_dir()


def test_what_is_appended_comes_back_from_a_replay_and_a_full_disk_takes_nothing_half(tmp_path: Path) -> None:
    with make(tmp_path) as store:
        store.append(took_up(1.0))
        journal = store.folder.path / "journal.jsonl"
        before = journal.read_bytes()
        move = began("a")
        with file_size_limit(len(before) + 20), pytest.raises(StoreWriteError, match="File too large"):
            store.append(move)
        assert journal.read_bytes() == before
        with pytest.raises(StoreWriteError):
            store.append(move)  # the state of the disk is no longer known
    with PlanStore.open(tmp_path, store.plan_id) as again:
        assert again.state().status is PlanStatus.ACTIVE
        assert again.state().steps == {}
        again.append(ended("a"))
        again.append(moved("a", StepStatus.COMPLETED))
        assert again.state().steps["a"].status is StepStatus.COMPLETED


def test_a_folder_can_be_read_by_anyone_who_knows_its_path(tmp_path: Path) -> None:
    with make(tmp_path) as store:
        assert PlanFolder(store.folder.path).state().attached == 0


@pytest.mark.parametrize("left", [None, b""])
def test_a_result_that_reached_the_journal_and_no_file_is_written_when_the_plan_is_opened(
    tmp_path: Path, left: bytes | None
) -> None:
    with make(tmp_path) as store:
        store.append(ended("a", completed("kept")))
        store.append(ended("b", completed("in the journal")))
        store.write_result("b", completed("in the file"))
        if left is not None:
            (store.step_folder("a") / "result.json").write_bytes(left)
    with PlanStore.open(tmp_path, store.plan_id) as again:
        texts = [(again.folder.step_folder(step_id) / "result.json").read_text() for step_id in "ab"]
    assert "kept" in texts[0]
    assert "in the file" in texts[1], "what is there stays"


@pytest.mark.parametrize("plan_id", ["../out", "a/b", ".hidden", "A"])
def test_settings_take_no_plan_id_that_is_no_name_of_a_folder(plan_id: str) -> None:
    with pytest.raises(ValidationError):
        RunSettings(workspace="/w", plan_id=plan_id)


async def test_kept_results_are_written_by_the_next_sync(tmp_path: Path) -> None:
    store = await to_thread.run_sync(make, tmp_path)
    with store:
        paths = [store.folder.step_folder(f"s{number}") / "result.json" for number in range(20)]
        async with anyio.create_task_group() as tasks:
            for number, path in enumerate(paths):
                store.keep_result(f"s{number}", completed(f"result {number}"))
                assert not path.exists()
                tasks.start_soon(store.sync)
        for number, path in enumerate(paths):
            assert f"result {number}" in await anyio.Path(path).read_text()


def lost(tmp_path: Path, *, side_effects: bool) -> str:
    """Return the id of a plan whose journal was emptied while the result of its step remained."""
    steps = [{"id": "s", "title": "S", "mode": "run", "command": "true", "side_effects": side_effects}]
    source = msgspec.json.encode({"version": 1, "goal": "g", "steps": steps})
    with PlanStore.create(tmp_path, SETTINGS, source) as store:
        store.write_result("s", completed())
        return store.plan_id


def test_an_emptied_journal_beside_results_is_said(tmp_path: Path) -> None:
    with PlanStore.open(tmp_path, lost(tmp_path, side_effects=False)) as store:
        (said,) = store.dropped

    assert "journal.jsonl was truncated: no record of s, which ran" in said


def test_what_acted_outside_is_not_done_again_because_its_record_is_gone(tmp_path: Path) -> None:
    with pytest.raises(BrokenPlanError, match="is missing s, which acted outside the workspace"):
        PlanStore.open(tmp_path, lost(tmp_path, side_effects=True))


def test_a_sound_journal_has_lost_nothing(tmp_path: Path) -> None:
    with PlanStore.create(tmp_path, SETTINGS, SOURCE) as store:
        plan_id = store.plan_id
    with PlanStore.open(tmp_path, plan_id) as store:
        assert store.dropped == ()


def test_a_workspace_that_is_closed_to_this_user_is_a_sentence() -> None:
    with folder_of_nobody() as folder:
        settings = SETTINGS.model_copy(update={"workspace": str(folder / "closed/work")})
        (folder / "closed/work").mkdir(parents=True)
        assert settings.existing_workspace().is_dir()

        (folder / "closed").chmod(0)

        with pytest.raises(UsageError, match="does not exist or can't be entered"):
            settings.existing_workspace()
