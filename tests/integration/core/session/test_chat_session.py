from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path

import pytest

from tests.integration.core.session.repository import ENVIRON, repository, write
from vibe.app.conversation.opening import Opening
from vibe.app.conversation.session import ChatSession, before_summary
from vibe.core.compactor import summary_message
from vibe.core.config.paths import VibePaths
from vibe.core.messages import Outcome, UserMessage
from vibe.core.session.errors import BrokenSessionError
from vibe.core.session.folder import SessionLoader, TranscriptError, read_meta
from vibe.system.errors import EnvironmentFailure, UsageError


def opening(workspace: Path, *, resume: str | None = None) -> Opening:
    return Opening(workdir=workspace, prompt="t", resume=resume, model="m", agent="default")


def begun(home: Path, workspace: Path) -> ChatSession:
    session = ChatSession.open(VibePaths(home), opening(workspace))
    session.transcript.append(UserMessage("go"))
    return session


def test_a_fork_leaves_both_sessions_whole_and_takes_the_lock_along(tmp_path: Path, vibe_home: Path) -> None:
    session = begun(vibe_home, tmp_path)
    first = session.folder

    session.fork(lambda path: session.transcript.restart([UserMessage("summary")], path))
    session.transcript.append(UserMessage("more"))

    assert session.folder != first
    assert read_meta(first.path).outcome == "compacted"
    assert read_meta(session.folder.path).parent_id == first.path.name
    assert [line.count("go") for line in first.transcript.read_text().splitlines()] == [1]
    assert session.folder.transcript.read_text().count("\n") == 2
    with pytest.raises(EnvironmentFailure, match="is in use by"):
        ChatSession.open(VibePaths(vibe_home), opening(tmp_path, resume=session.session_id))
    session.close(Outcome.COMPLETED)
    session.release()
    again = ChatSession.open(VibePaths(vibe_home), opening(tmp_path, resume="latest"))
    assert again.session_id == session.session_id
    assert [message.content for message in again.transcript.messages] == ["summary", "more"]
    again.release()


def test_what_was_said_before_summaries_is_found_in_the_sessions_that_have_it(tmp_path: Path, vibe_home: Path) -> None:
    paths = VibePaths(vibe_home)
    session = begun(vibe_home, tmp_path)
    for text in ("one", "two"):
        session.transcript.append(UserMessage(text))
    first = session.session_id
    for number in (1, 2):
        summary = summary_message(f"summary {number}", "", ())
        kept = session.transcript.messages[-1]
        session.fork(partial(session.transcript.restart, [summary, kept]))
        session.transcript.append(UserMessage(f"after {number}"))
    session.rewind(2, {}, files=False)
    session.transcript.append(UserMessage("another way"))

    second = before_summary(paths, session.session_id)
    assert second is not None
    assert [message.content for message in second.messages[1:]] == ["two"]
    earlier = before_summary(paths, second.session_id)
    assert earlier is not None
    assert (earlier.session_id, [message.content for message in earlier.messages]) == (first, ["go", "one"])
    assert before_summary(paths, first) is None

    shutil.rmtree(paths.sessions / first)
    with pytest.raises(BrokenSessionError, match=first):
        before_summary(paths, second.session_id)
    session.release()


@pytest.mark.parametrize("kept", range(4))
def test_what_stands_behind_a_summary_word_for_word_is_not_found_before_it_too(
    kept: int, tmp_path: Path, vibe_home: Path
) -> None:
    session = begun(vibe_home, tmp_path)
    for text in ("one", "two"):
        session.transcript.append(UserMessage(text))
    messages = list(session.transcript.messages)
    behind = messages[len(messages) - kept :]
    session.fork(partial(session.transcript.restart, [summary_message("in short", "", ()), *behind]))

    earlier = before_summary(VibePaths(vibe_home), session.session_id)

    assert earlier is not None
    assert [*earlier.messages, *behind] == messages
    session.release()


def test_a_fork_that_cannot_be_written_leaves_the_session_as_it_is(tmp_path: Path, vibe_home: Path) -> None:
    session = begun(vibe_home, tmp_path)

    def refuse(path: Path | None) -> None:
        raise TranscriptError(path or tmp_path, "cannot be written (No space left on device)")

    with pytest.raises(TranscriptError):
        session.fork(refuse)

    session.transcript.append(UserMessage("more"))
    session.release()
    assert session.folder.transcript.read_text().count("\n") == 2
    assert [saved.meta.session_id for saved in SessionLoader(VibePaths(vibe_home).sessions).all().sessions] == [
        session.session_id
    ]


def test_the_session_before_a_fork_is_free_to_be_gone_on_with(tmp_path: Path, vibe_home: Path) -> None:
    session = begun(vibe_home, tmp_path)
    first = session.session_id

    session.clear()
    earlier = ChatSession.open(VibePaths(vibe_home), opening(tmp_path, resume=first))

    assert [message.content for message in earlier.transcript.messages] == ["go"]
    earlier.release()
    session.release()


def test_after_a_fork_files_are_recorded_in_the_new_session_besides_what_was_before(
    tmp_path: Path, vibe_home: Path
) -> None:
    session = begun(vibe_home, repository(tmp_path / "w", {"a.txt": "a"}))
    before = session.snapshots(ENVIRON)
    before.take(0)

    session.fork(lambda path: session.transcript.restart([], path))
    write(tmp_path / "w", {"a.txt": "b"})
    session.snapshots(ENVIRON).take(1)

    assert [snapshot.messages for snapshot in before.points()] == [0]
    assert [snapshot.messages for snapshot in session.snapshots(ENVIRON).points()] == [0, 1]
    session.release()


def test_any_number_of_sessions_are_open_in_one_folder(tmp_path: Path, vibe_home: Path) -> None:
    sessions = [begun(vibe_home, tmp_path) for _ in range(3)]

    assert len({session.session_id for session in sessions}) == 3
    for session in sessions:
        session.release()


def test_a_session_that_is_taken_up_again_is_under_way_again(tmp_path: Path, vibe_home: Path) -> None:
    session = begun(vibe_home, tmp_path)
    session.close(Outcome.FAILED)
    session.release()

    again = ChatSession.open(VibePaths(vibe_home), opening(tmp_path, resume="latest"))

    assert read_meta(again.folder.path).outcome is None
    again.release()


def test_a_window_in_which_nothing_was_said_is_no_session(tmp_path: Path, vibe_home: Path) -> None:
    said = begun(vibe_home, tmp_path)
    said.close(Outcome.COMPLETED)
    said.release()
    paths = VibePaths(vibe_home)
    silent = ChatSession.open(paths, opening(tmp_path))
    silent.entitle("named before its first prompt")

    assert [saved.meta.session_id for saved in SessionLoader(paths.sessions).all().sessions] == [said.session_id]
    assert SessionLoader(paths.sessions).find("latest", tmp_path).meta.session_id == said.session_id
    with pytest.raises(EnvironmentFailure, match="is in use by"):
        ChatSession.open(paths, opening(tmp_path, resume=silent.session_id))
    silent.close(Outcome.COMPLETED)
    silent.release()
    with pytest.raises(UsageError, match="see `vibe session list`"):
        ChatSession.open(paths, opening(tmp_path, resume=silent.session_id))
    assert [path.name for path in paths.sessions.iterdir()] == [said.session_id]
