from __future__ import annotations

import errno
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes.unprivileged import folder_of_nobody
from tests.fakes.waiting import until
from tests.integration.core.session.repository import ENVIRON, content, git, repository, snapshots, write
from vibe.core.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from vibe.core.session.errors import SnapshotError
from vibe.core.session.folder import SavedSession, SessionFolder, SessionLoader, SessionMeta, Transcript
from vibe.core.session.rewind import RewindManager, turn_starts
from vibe.core.session.snapshots import MOST_BYTES, SETTLED_NS
from vibe.system.errors import UsageError

EARLIER = Path(__file__).parent / "earlier"


class Story:
    """Two prompts, each with a turn that changes files. What people do in between is up to the test."""

    def __init__(self, tmp_path: Path, root: Path) -> None:
        self.root = root
        self.sessions = tmp_path / "sessions"
        meta = SessionMeta(version=1, session_id="first", workspace=str(root), title="t")
        self.folder = SessionFolder.begin(self.sessions, meta)
        self.transcript = Transcript(path=self.folder.transcript)
        self.history = snapshots(root, self.folder.path)

    def prompt(self, text: str, change: Callable[[], None]) -> None:
        """Add a prompt, a call that changes files, and the answer."""
        call = ToolCall(f"c{self.transcript.turns}", "bash", "{}")
        start = len(self.transcript.messages)
        turn: list[Message] = [UserMessage(text), AssistantMessage("", (call,)), ToolMessage("ok", call.id, "bash")]
        for message in turn:
            self.transcript.append(message)
        self.history.take(start, found=True)
        change()
        self.history.take(len(self.transcript.messages))
        self.transcript.append(AssistantMessage("done"))

    @property
    def saved(self) -> SavedSession:
        return SessionLoader(self.sessions).find("first", self.root)

    @property
    def manager(self) -> RewindManager:
        return RewindManager(ENVIRON)


@pytest.fixture
def story(tmp_path: Path) -> Story:
    story = Story(tmp_path, repository(tmp_path / "w", {"a.txt": "one", "b.txt": "b", "keep.txt": "keep"}))
    story.prompt("first", lambda: write(story.root, {"a.txt": "two", "made/by.txt": "agent"}))
    story.prompt("second", lambda: write(story.root, {"a.txt": "three"}))
    return story


def test_files_and_conversation_go_back_to_before_a_prompt(story: Story) -> None:
    report = story.manager.rewind(story.saved, 4)

    assert content(story.root) == {"a.txt": "two", "b.txt": "b", "keep.txt": "keep", "made/by.txt": "agent"}
    assert (report.files.restored, report.files.deleted, report.files.conflicts) == (("a.txt",), (), ())
    forked = SessionLoader(story.sessions).find(report.session_id, story.root)
    assert forked.meta.parent_id == "first"
    assert Transcript.peek(forked.folder.transcript).messages == story.transcript.messages[:4]
    assert Transcript.peek(story.folder.transcript).messages == story.transcript.messages


def test_back_to_the_start_what_the_agent_made_is_gone(story: Story) -> None:
    report = story.manager.rewind(story.saved, 0)

    assert content(story.root) == {"a.txt": "one", "b.txt": "b", "keep.txt": "keep"}
    assert not (story.root / "made").exists()
    assert report.files.deleted == ("made/by.txt",)
    assert git("status", "--short", cwd=story.root) == ""


@pytest.mark.parametrize("left", [b"", b"\0\xff\n"])
def test_a_lost_record_of_the_files_is_no_success(story: Story, left: bytes) -> None:
    (story.folder.path / "history.jsonl").write_bytes(left)

    with pytest.raises(SnapshotError, match="no file was put back"):
        story.manager.rewind(story.saved, 4)

    assert content(story.root)["a.txt"] == "three"


def test_a_damaged_line_in_the_middle_of_that_record_is_said_and_no_file_is_put_back(story: Story) -> None:
    path = story.folder.path / "history.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], lines[1].replace(b'":', b'"', 1), *lines[2:]]))

    with pytest.raises(SnapshotError, match=r"history\.jsonl:2 is damaged"):
        story.manager.rewind(story.saved, 4)

    assert content(story.root)["a.txt"] == "three"
    assert story.manager.rewind(story.saved, 4, files=False).files.restored == ()


def test_files_stay_where_only_the_conversation_was_to_go_back(story: Story) -> None:
    report = story.manager.rewind(story.saved, 0, files=False)

    assert content(story.root)["a.txt"] == "three"
    assert report.files.restored == ()


def test_what_a_person_changed_of_the_agents_files_is_set_aside_and_other_files_stay(story: Story) -> None:
    write(story.root, {"a.txt": "mine", "b.txt": "mine too", "new.txt": "new"})

    report = story.manager.rewind(story.saved, 4)

    assert [(conflict.path, conflict.saved_as.read_text()) for conflict in report.files.conflicts] == [
        ("a.txt", "mine")
    ]
    assert report.files.restored == ("a.txt",)
    assert content(story.root) == {
        "a.txt": "two",
        "b.txt": "mine too",
        "keep.txt": "keep",
        "made/by.txt": "agent",
        "new.txt": "new",
    }


def test_what_a_person_changed_between_two_prompts_is_theirs_too(tmp_path: Path) -> None:
    story = Story(tmp_path, repository(tmp_path / "w", {"a.txt": "one", "b.txt": "b", "c.txt": "c"}))
    story.prompt("first", lambda: write(story.root, {"a.txt": "two"}))
    write(story.root, {"a.txt": "mine", "b.txt": "mine"})
    story.prompt("second", lambda: write(story.root, {"c.txt": "three"}))

    report = story.manager.rewind(story.saved, 0)

    assert [(conflict.path, conflict.saved_as.read_text()) for conflict in report.files.conflicts] == [
        ("a.txt", "mine")
    ]
    assert content(story.root) == {"a.txt": "one", "b.txt": "mine", "c.txt": "c"}


def test_of_the_files_only_some_go_back(tmp_path: Path) -> None:
    story = Story(tmp_path, repository(tmp_path / "w", {"a.txt": "one", "b.txt": "b"}))
    story.prompt("first", lambda: write(story.root, {"a.txt": "two", "b.txt": "two"}))
    write(story.root, {"a.txt": "mine"})

    assert {file.path: file.by_others for file in story.manager.outlook(story.saved, 0)} == {
        "a.txt": True,
        "b.txt": False,
    }
    story.manager.rewind(story.saved, 0, only=["b.txt"])
    assert content(story.root) == {"a.txt": "mine", "b.txt": "b"}


def test_what_a_turn_did_that_was_cut_off_goes_back_and_is_set_aside(tmp_path: Path) -> None:
    story = Story(tmp_path, repository(tmp_path / "w", {"a.txt": "one"}))
    story.transcript.append(UserMessage("go"))
    story.history.take(0, found=True)
    write(story.root, {"a.txt": "half"})

    report = story.manager.rewind(story.saved, 0)

    assert [conflict.saved_as.read_text() for conflict in report.files.conflicts] == ["half"]
    assert content(story.root) == {"a.txt": "one"}


def test_before_the_second_prompt_the_person_had_changed_it_already(tmp_path: Path) -> None:
    story = Story(tmp_path, repository(tmp_path / "w", {"a.txt": "one", "b.txt": "b"}))
    story.prompt("first", lambda: write(story.root, {"a.txt": "two"}))
    write(story.root, {"b.txt": "mine"})
    story.prompt("second", lambda: write(story.root, {"a.txt": "three"}))

    report = story.manager.rewind(story.saved, 4)

    assert content(story.root) == {"a.txt": "two", "b.txt": "mine"}
    assert report.files.conflicts == ()


def test_a_staged_change_and_the_branches_of_the_user_stay(story: Story) -> None:
    git("add", "-A", cwd=story.root)
    staged = git("diff", "--cached", cwd=story.root)
    refs = git("for-each-ref", cwd=story.root)

    story.manager.rewind(story.saved, 0)

    assert git("diff", "--cached", cwd=story.root) == staged
    assert git("for-each-ref", cwd=story.root) == refs


def test_a_file_that_became_a_folder_goes_back(tmp_path: Path) -> None:
    story = Story(tmp_path, repository(tmp_path / "w", {"a": "file"}))

    def change() -> None:
        (story.root / "a").unlink()
        write(story.root, {"a/b": "below"})

    story.prompt("go", change)
    story.manager.rewind(story.saved, 0)

    assert content(story.root) == {"a": "file"}


def test_a_place_in_the_middle_of_a_turn_is_refused_before_anything_happens(story: Story) -> None:
    with pytest.raises(UsageError, match="message 2 is not a point to rewind to"):
        story.manager.rewind(story.saved, 2)

    assert content(story.root)["a.txt"] == "three"
    assert turn_starts(story.transcript.messages) == [0, 1, 3, 4, 5, 7, 8]


def test_a_conversation_that_changed_nothing_has_no_files_to_put_back(tmp_path: Path) -> None:
    story = Story(tmp_path, repository(tmp_path / "w", {"a.txt": "one"}))
    story.transcript.append(UserMessage("hello"))
    write(story.root, {"a.txt": "mine"})

    assert story.manager.rewind(story.saved, 0).files.restored == ()
    assert content(story.root) == {"a.txt": "mine"}


def test_a_file_that_cannot_be_read_is_named_once_and_costs_nothing_else() -> None:
    with folder_of_nobody() as base:
        root = repository(base / "w", {"a.txt": "one", "shut/b.txt": "b", "closed.bin": "c"})
        (root / "closed.bin").chmod(0)
        (root / "shut").chmod(0)
        story = Story(base, root)

        story.prompt("go", lambda: write(root, {"a.txt": "two"}))

        said = story.history.unread()
        assert "'closed.bin'" in said
        assert "'shut" in said
        assert story.history.unread() == ""
        report = story.manager.rewind(story.saved, 0)
        assert (report.files.restored, dict(report.files.skipped)) == (("a.txt",), {})
        assert (root / "a.txt").read_text() == "one"


def test_what_could_not_be_read_then_is_named_and_left_as_it_is() -> None:
    with folder_of_nobody() as base:
        root = repository(base / "w", {"a.txt": "one", "closed.bin": "c"})
        (root / "closed.bin").chmod(0)
        story = Story(base, root)

        def change() -> None:
            (root / "closed.bin").chmod(0o600)
            write(root, {"a.txt": "two", "closed.bin": "d"})

        story.prompt("go", change)
        report = story.manager.rewind(story.saved, 0)

        assert (report.files.restored, list(report.files.skipped)) == (("a.txt",), ["closed.bin"])
        assert (root / "closed.bin").read_text() == "d"


def test_a_rewind_that_can_give_nothing_back_is_refused(tmp_path: Path) -> None:
    story = Story(tmp_path, repository(tmp_path / "w", {"a.txt": "one"}))
    write(story.root, {"huge.bin": "x" * (MOST_BYTES + 1)})
    story.prompt("go", lambda: write(story.root, {"huge.bin": "small"}))

    with pytest.raises(SnapshotError, match=r"nothing was put back: 'huge\.bin'"):
        story.manager.rewind(story.saved, 0)
    assert len(SessionLoader(story.sessions).all().sessions) == 1


def test_where_nothing_was_recorded_a_rewind_of_files_says_why(tmp_path: Path) -> None:
    story = Story(tmp_path, repository(tmp_path / "w", {"a.txt": "one"}))
    story.prompt("first", lambda: write(story.root, {"a.txt": "two"}))
    story.history.lose(4, "far too many files are new")
    write(story.root, {"a.txt": "three"})

    report = story.manager.rewind(story.saved, 4)
    assert content(story.root) == {"a.txt": "two"}
    assert [conflict.saved_as.read_text() for conflict in report.files.conflicts] == ["three"]

    lost = Story(tmp_path / "other", repository(tmp_path / "other" / "w", {"a.txt": "one"}))
    lost.transcript.append(UserMessage("go"))
    lost.history.lose(0, "far too many files are new")
    with pytest.raises(SnapshotError, match="no file was put back: far too many files are new"):
        lost.manager.rewind(lost.saved, 0)


def test_files_that_an_earlier_version_recorded_are_left_with_a_sentence(tmp_path: Path) -> None:
    story = Story(tmp_path, repository(tmp_path / "w", {"a.txt": "two\n"}))
    story.transcript.append(UserMessage("go"))
    shutil.copy(EARLIER / "snapshots.jsonl", story.folder.path)

    with pytest.raises(SnapshotError, match="recorded by an earlier version of vibe"):
        story.manager.rewind(story.saved, 0)
    assert story.manager.rewind(story.saved, 0, files=False).messages == 0

    story.prompt("on", lambda: write(story.root, {"a.txt": "three\n"}))
    story.manager.rewind(story.saved, 1)
    assert content(story.root) == {"a.txt": "two\n"}
    with pytest.raises(SnapshotError, match="recorded by an earlier version of vibe"):
        story.manager.rewind(story.saved, 0)


def test_a_link_in_the_way_is_not_followed(tmp_path: Path) -> None:
    story = Story(tmp_path, repository(tmp_path / "w", {"sub/a.txt": "one"}))
    write(tmp_path / "outside", {"a.txt": "theirs"})
    story.prompt("go", lambda: write(story.root, {"sub/a.txt": "two"}))
    shutil.rmtree(story.root / "sub")
    (story.root / "sub").symlink_to(tmp_path / "outside")

    report = story.manager.rewind(story.saved, 0)

    assert content(tmp_path / "outside") == {"a.txt": "theirs"}
    assert list(report.files.skipped) == ["sub/a.txt"]


def test_a_name_that_was_joined_to_another_file_is_parted_from_it_again(tmp_path: Path) -> None:
    story = Story(tmp_path, repository(tmp_path / "w", {"a.txt": "one", "b.txt": "two"}))

    def change() -> None:
        (story.root / "b.txt").unlink()
        (story.root / "b.txt").hardlink_to(story.root / "a.txt")

    story.prompt("go", change)
    story.manager.rewind(story.saved, 0)

    assert content(story.root) == {"a.txt": "one", "b.txt": "two"}


def test_a_folder_with_files_that_nobody_recorded_stays_and_is_not_said_to_be_gone(tmp_path: Path) -> None:
    story = Story(tmp_path, repository(tmp_path / "w", {"a.txt": "one", ".gitignore": "*.log\n"}))
    story.prompt("go", lambda: write(story.root, {"made/b.txt": "b", "made/x.log": "noise", "gone/c.txt": "c"}))

    report = story.manager.rewind(story.saved, 0)

    assert (report.files.deleted, dict(report.files.skipped)) == (("gone/c.txt", "made/b.txt"), {})
    assert content(story.root) == {"a.txt": "one", ".gitignore": "*.log\n", "made/x.log": "noise"}


def test_what_was_ignored_is_no_file_that_the_agent_has_made_once_it_is_listed(tmp_path: Path) -> None:
    story = Story(tmp_path, repository(tmp_path / "w", {"a.txt": "one", "src/b.txt": "b", ".gitignore": "*.local\n"}))
    write(story.root, {"own.local": "mine", "src/deep.local": "mine, too"})
    made = (story.root / "src" / "deep.local").stat().st_ctime_ns
    until(lambda: time.time_ns() > made + 2 * SETTLED_NS)

    def show() -> None:
        write(story.root, {".gitignore": "", "new.txt": "agent"})
        (story.root / "src").rename(story.root / "lib")

    story.prompt("first", show)
    story.prompt("second", lambda: write(story.root, {"own.local": "changed"}))
    report = story.manager.rewind(story.saved, 0)

    assert report.files.deleted == ("lib/b.txt", "new.txt")
    assert content(story.root) == {
        "a.txt": "one", "src/b.txt": "b", ".gitignore": "*.local\n", "own.local": "mine", "lib/deep.local": "mine, too"
    }  # fmt: skip


def test_where_a_disk_has_no_room_for_copies_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story = Story(tmp_path, repository(tmp_path / "w", {"a.txt": "one"}))
    story.history.take(0, found=True)
    write(story.root, {"a.txt": "two"})

    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("vibe.core.session.snapshots.replace_file", full)
    with pytest.raises(SnapshotError, match="No space left on device"):
        story.history.take(3)
    assert story.history.unread() == ""
