from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest

from tests.fakes.full_disk import file_size_limit
from tests.fakes.unprivileged import folder_of_nobody
from vibe.core.messages import AssistantMessage, Usage, UserMessage
from vibe.core.session.errors import (
    BrokenSessionError,
    SnapshotError,
)
from vibe.core.session.folder import (
    SessionFolder,
    SessionLoader,
    SessionMeta,
    Transcript,
    lock_session,
    read_meta,
    write_meta,
)
from vibe.core.session.rewind import RewindManager
from vibe.system.errors import EnvironmentFailure, UsageError
from vibe.system.git.discovery import git_head


def begin(sessions: Path, session_id: str, workspace: Path, *, said: float) -> SessionFolder:
    meta = SessionMeta(version=1, session_id=session_id, workspace=str(workspace))
    folder = SessionFolder.begin(sessions, meta)
    folder.transcript.touch()
    os.utime(folder.transcript, (said, said))
    return folder


def test_the_newest_session_comes_first_and_a_broken_one_is_said(tmp_path: Path) -> None:
    begin(tmp_path, "aa1", tmp_path, said=10)
    begin(tmp_path, "bb2", tmp_path, said=30)
    broken = begin(tmp_path, "cc3", tmp_path, said=20)
    (broken.path / "meta.json").write_text("{nonsense")

    listing = SessionLoader(tmp_path).all()

    assert [saved.meta.session_id for saved in listing.sessions] == ["bb2", "aa1"]
    assert len(listing.problems) == 1
    assert "cc3" in listing.problems[0]


def test_a_folder_without_sessions_has_none(tmp_path: Path) -> None:
    assert SessionLoader(tmp_path / "nowhere").all().sessions == ()


def test_a_session_is_found_by_the_beginning_of_its_id(tmp_path: Path) -> None:
    for session_id in ("abc1", "abd2", "abc"):
        begin(tmp_path, session_id, tmp_path, said=1)
    loader = SessionLoader(tmp_path)

    assert loader.find("abd", tmp_path).meta.session_id == "abd2"
    assert loader.find("abc", tmp_path).meta.session_id == "abc"
    with pytest.raises(UsageError, match="3 session ids"):
        loader.find("ab", tmp_path)
    with pytest.raises(UsageError, match="vibe session list"):
        loader.find("zz", tmp_path)
    with pytest.raises(UsageError, match="no session"):
        loader.find("", tmp_path)


def test_the_last_session_of_a_workspace_is_the_one_spoken_in_last(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    begin(tmp_path / "s", "old", here, said=10)
    begin(tmp_path / "s", "new", here, said=20)
    begin(tmp_path / "s", "other", there, said=30)
    loader = SessionLoader(tmp_path / "s")

    assert loader.find("latest", here).meta.session_id == "new"
    with pytest.raises(UsageError, match="no session to continue"):
        loader.find("latest", tmp_path)


def test_meta_data_come_back_as_written(tmp_path: Path) -> None:
    meta = SessionMeta(
        version=1, session_id="a", workspace="/w", title="héllo", parent_id="p", usage=Usage(1, 2, 0, 1), cost_usd=0.5
    )
    write_meta(tmp_path, meta)

    assert read_meta(tmp_path) == meta


def test_meta_data_are_for_their_owner_alone(tmp_path: Path) -> None:
    (tmp_path / "meta.json.new").touch(0o666)
    before = os.umask(0)
    try:
        write_meta(tmp_path, SessionMeta(version=1, session_id="a", workspace="/w"))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "meta.json").stat().st_mode) == 0o600


def test_a_file_without_a_version_is_brought_up_to_date_and_not_rewritten(tmp_path: Path) -> None:
    old = {"id": "a1", "cwd": "/w", "start_time": 5.0, "title": "hello", "unheard_of": 1}
    (tmp_path / "meta.json").write_text(json.dumps(old))

    meta = read_meta(tmp_path)

    assert (meta.version, meta.session_id, meta.workspace, meta.started, meta.title) == (1, "a1", "/w", 5.0, "hello")
    assert json.loads((tmp_path / "meta.json").read_text()) == old


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"version": 99}', "newer vibe"),
        ('{"version": "x"}', "version 'x'"),
        ("[]", "damaged"),
        ('{"version": 1}', "session_id"),
    ],
)
def test_a_file_that_cannot_be_understood_says_why(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "meta.json").write_text(text)

    with pytest.raises(BrokenSessionError, match=said):
        read_meta(tmp_path)


def test_a_session_has_one_holder(tmp_path: Path) -> None:
    folder = begin(tmp_path, "a", tmp_path, said=1)
    held = lock_session(folder)

    with pytest.raises(EnvironmentFailure, match=f"session a is in use by process {os.getpid()}"):
        lock_session(folder)
    held.release()
    lock_session(folder).release()


def git(*words: str, cwd: Path) -> str:
    identity = ("-c", "user.name=t", "-c", "user.email=t@t")
    return subprocess.run(
        ["git", *identity, *words], cwd=cwd, check=True, capture_output=True, text=True
    ).stdout.strip()


def test_commit_and_branch_are_read_as_git_has_them(tmp_path: Path) -> None:
    assert git_head(tmp_path) == (None, None)
    git("init", "-q", "-b", "trunk/x", cwd=tmp_path)
    assert git_head(tmp_path) == (None, "trunk/x")
    git("commit", "-q", "--allow-empty", "-m", "x", cwd=tmp_path)
    commit = git("rev-parse", "HEAD", cwd=tmp_path)
    (tmp_path / "below").mkdir()

    assert git_head(tmp_path / "below") == (commit, "trunk/x")
    git("pack-refs", "--all", cwd=tmp_path)
    assert git_head(tmp_path) == (commit, "trunk/x")
    git("worktree", "add", "-q", "-b", "side", str(tmp_path / "tree"), cwd=tmp_path)
    assert git_head(tmp_path / "tree") == (commit, "side")
    git("checkout", "-q", "--detach", cwd=tmp_path)
    assert git_head(tmp_path) == (commit, None)


def kept_session(sessions: Path, meta: bytes | None) -> Path:
    """Write a session with a prompt and an answer, and with damaged metadata (None: without any)."""
    folder = SessionFolder.begin(
        sessions, SessionMeta(version=1, session_id="a" * 32, workspace="/w/\u00e4", model="m", title="say hi")
    )
    transcript = Transcript(path=folder.transcript)
    transcript.append(UserMessage("say\n hi"))
    transcript.append(AssistantMessage("hi", usage=Usage(3, 1, 0, 1)))
    if meta is None:
        (folder.path / "meta.json").unlink()
    else:
        (folder.path / "meta.json").write_bytes(meta)
    return folder.path


@pytest.mark.parametrize("damage", [b"", b"{", b"\0\0", b"[]", b"null", b'{"version": 1}', b"\xff", None], ids=repr)
def test_a_session_without_its_meta_data_is_told_by_its_messages(tmp_path: Path, damage: bytes | None) -> None:
    kept_session(tmp_path, damage)
    loader = SessionLoader(tmp_path)

    saved = loader.find("aaaa", tmp_path)

    assert "meta.json" in saved.lost
    assert (saved.meta.session_id, saved.meta.title, saved.meta.workspace) == ("a" * 32, "say hi", "")
    assert saved.meta.usage == Usage(3, 1, 0, 1)
    assert saved.meta.started > 0
    assert [one.meta.session_id for one in loader.all().sessions] == ["a" * 32]
    assert "taken from its messages" in loader.all().problems[0]
    with pytest.raises(UsageError, match="no session"):
        loader.find("latest", Path.cwd())  # noqa: TID251  a blank workspace is not the current folder


@pytest.mark.parametrize("share", [0.3, 0.5, 0.9, 0.98])
def test_of_torn_meta_data_what_is_whole_is_kept(tmp_path: Path, share: float) -> None:
    path = kept_session(tmp_path, b"") / "meta.json"
    write_meta(path.parent, SessionMeta(version=1, session_id="a" * 32, workspace="/w/\u00e4", model="m", title="t"))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * share)])

    assert SessionLoader(tmp_path).find("latest", Path("/w/\u00e4")).meta.model == "m"


@pytest.mark.parametrize("meta", [b"", b'{"version": 1, "session_id": "a", "workspace": "/w\\u0000"}'])
def test_files_of_a_workspace_that_is_not_known_are_not_rewound(tmp_path: Path, meta: bytes) -> None:
    kept_session(tmp_path, meta)
    manager = RewindManager({})

    with pytest.raises(SnapshotError, match=r"the workspace is not known.*--resume"):
        manager.rewind(SessionLoader(tmp_path).find("a", tmp_path), 0)
    assert manager.rewind(SessionLoader(tmp_path).find("a", tmp_path), 0, files=False).messages == 0
    with pytest.raises(UsageError, match="no session to continue"):
        SessionLoader(tmp_path).find("latest", tmp_path / "elsewhere")


def test_neither_a_newer_file_nor_one_without_messages_is_made_again(tmp_path: Path) -> None:
    kept_session(tmp_path, b'{"version": 99}')
    with pytest.raises(BrokenSessionError, match="newer vibe"):
        SessionLoader(tmp_path).find("a", tmp_path)
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "meta.json").touch()
    with pytest.raises(BrokenSessionError, match="damaged"):
        SessionLoader(tmp_path).find("b", tmp_path)


def test_one_folder_that_can_not_be_looked_into_hides_no_other_and_is_told() -> None:
    with folder_of_nobody() as home:
        loader = SessionLoader(home)
        for name in ("closed", "open"):
            begin(home, name, home, said=1)
        (home / "closed").chmod(0o000)

        listing = loader.all()
        assert [saved.meta.session_id for saved in listing.sessions] == ["open"]
        assert "closed can't be read" in loader.find("latest", home).passed_over
        assert [problem.partition("closed ")[2] for problem in listing.problems] == [
            "can't be read: meta.json can't be read (Permission denied)"
        ]
        with pytest.raises(UsageError, match=r"no session to continue in /x \(1 can't be read, see"):
            loader.find("latest", Path("/x"))

        home.chmod(0o000)
        with pytest.raises(EnvironmentFailure, match=r"can't be read \(Permission denied\): correct the permissions"):
            loader.all()


def test_a_full_disk_leaves_nothing_of_a_new_session(tmp_path: Path) -> None:
    meta = SessionMeta(version=1, session_id="s", workspace="/w")
    with file_size_limit(10), pytest.raises(EnvironmentFailure, match="can't be written"):
        SessionFolder.begin(tmp_path, meta)

    assert list(tmp_path.iterdir()) == []
