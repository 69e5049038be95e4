from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.integration.session.repository import ENVIRON, content, git, repository, snapshots, write
from vibe.core.messages import AssistantMessage, Message, ToolCall, ToolMessage, UserMessage
from vibe.core.session.errors import NoSuchMessageError
from vibe.core.session.folder import SessionFolder
from vibe.core.session.loader import SavedSession, SessionLoader
from vibe.core.session.meta import SessionMeta
from vibe.core.session.rewind import RewindManager, turn_starts
from vibe.core.session.transcript import Transcript


class Story:
    """Two prompts, each with a turn that changes files; what people do in between is up to the test."""

    def __init__(self, tmp_path: Path, root: Path) -> None:
        self.root = root
        self.sessions = tmp_path / "sessions"
        meta = SessionMeta(version=1, session_id="first", workspace=str(root), title="t")
        self.folder = SessionFolder.begin(self.sessions, meta)
        self.transcript = Transcript(path=self.folder.transcript)
        self.history = snapshots(root, self.folder.path)

    def prompt(self, text: str, change: Callable[[], None]) -> None:
        """A prompt, a call that changes files, and the answer."""
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
        return SessionLoader(self.sessions).find("first")

    @property
    def manager(self) -> RewindManager:
        return RewindManager(self.sessions, ENVIRON)


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
    forked = SessionLoader(story.sessions).find(report.session_id)
    assert forked.meta.parent_id == "first"
    assert Transcript.peek(forked.folder.transcript).messages == story.transcript.messages[:4]
    assert Transcript.peek(story.folder.transcript).messages == story.transcript.messages


def test_back_to_the_start_what_the_agent_made_is_gone(story: Story) -> None:
    report = story.manager.rewind(story.saved, 0)

    assert content(story.root) == {"a.txt": "one", "b.txt": "b", "keep.txt": "keep"}
    assert not (story.root / "made").exists()
    assert report.files.deleted == ("made/by.txt",)
    assert git("status", "--short", cwd=story.root) == ""


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


def test_files_before_a_git_filter_are_left_alone_and_named(tmp_path: Path) -> None:
    root = repository(tmp_path / "w", {"a.bin": "one", "a.txt": "one", ".gitattributes": "*.bin filter=lfs\n"})
    story = Story(tmp_path, root)
    story.prompt("go", lambda: write(root, {"a.bin": "two", "a.txt": "two"}))

    report = story.manager.rewind(story.saved, 0)

    assert (report.files.restored, report.files.skipped) == (("a.txt",), ("a.bin",))
    assert content(root)["a.bin"] == "two"


def test_a_file_that_became_a_folder_goes_back(tmp_path: Path) -> None:
    story = Story(tmp_path, repository(tmp_path / "w", {"a": "file"}))

    def change() -> None:
        (story.root / "a").unlink()
        write(story.root, {"a/b": "below"})

    story.prompt("go", change)
    story.manager.rewind(story.saved, 0)

    assert content(story.root) == {"a": "file"}


def test_a_place_in_the_middle_of_a_turn_is_refused_before_anything_happens(story: Story) -> None:
    with pytest.raises(NoSuchMessageError, match="message 2 is not a point to rewind to"):
        story.manager.rewind(story.saved, 2)

    assert content(story.root)["a.txt"] == "three"
    assert turn_starts(story.transcript.messages) == [0, 1, 3, 4, 5, 7, 8]


def test_a_conversation_that_changed_nothing_has_no_files_to_put_back(tmp_path: Path) -> None:
    story = Story(tmp_path, repository(tmp_path / "w", {"a.txt": "one"}))
    story.transcript.append(UserMessage("hello"))
    write(story.root, {"a.txt": "mine"})

    assert story.manager.rewind(story.saved, 0).files.restored == ()
    assert content(story.root) == {"a.txt": "mine"}
