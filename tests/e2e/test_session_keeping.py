"""Sessions deleted, pruned, searched, renamed, forked and exported.

Covers ``vibe.core.session``, ``vibe.cli.commands``.
"""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.conftest import VibeCommand, snapshot
from vibe.core.session.folder import SessionFolder, SessionMeta, lock_session, write_meta

DAY = 86_400


def say(vibe: VibeCommand, prompt: str, *words: str) -> str:
    """Send a prompt, and return the id of its session."""
    return vibe("--output", "json", *words, "-p", prompt).document["session_id"]


def talk(vibe: VibeCommand, *answers: str) -> None:
    vibe.replay({"agents": {"main": {"turns": [{"text": answer} for answer in answers]}}})


def folder_of(vibe: VibeCommand, session_id: str) -> SessionFolder:
    return SessionFolder(vibe.home / "logs" / "session" / session_id)


def age(vibe: VibeCommand, session_id: str, days: float) -> None:
    at = time.time() - days * DAY
    os.utime(folder_of(vibe, session_id).transcript, (at, at))


def listed(vibe: VibeCommand) -> dict[str, str]:
    """Return the titles of all sessions by their ids."""
    return {one["session_id"]: one["title"] for one in vibe("session", "list", "--output", "json").document}


def test_sessions_are_deleted_all_or_none(vibe: VibeCommand) -> None:
    talk(vibe, "one", "two", "three")
    one, two, three = (say(vibe, f"prompt {number}") for number in range(3))
    before = snapshot(vibe.home / "logs" / "session")

    unknown = vibe("session", "delete", one, "zz")
    assert (unknown.code, unknown.out) == (2, "")
    with lock_session(folder_of(vibe, two)):
        used = vibe("session", "delete", one[:8], two[:8])
    assert (used.code, used.err) == (
        3, f"vibe: session {two} is in use by process {os.getpid()}: wait for it or stop it\n"
    )  # fmt: skip
    window = folder_of(vibe, "f" * 32)  # an open session in which nothing was said yet
    window.path.mkdir()
    write_meta(window.path, SessionMeta(version=1, session_id=window.path.name, workspace=str(vibe.workdir)))
    with lock_session(window):
        assert vibe("session", "delete", one, window.path.name).code == 3
    assert snapshot(vibe.home / "logs" / "session").keys() >= before.keys()

    assert vibe("session", "delete", one[:8], two[:8], one, "--output", "json").document == {"deleted": [one, two]}
    assert listed(vibe) == {three: "prompt 2"}
    assert not folder_of(vibe, one).path.exists()


def test_old_sessions_are_pruned_and_running_ones_and_their_parents_stay(vibe: VibeCommand) -> None:
    talk(vibe, *"abcdef")
    grandparent = say(vibe, "grandparent")
    parent = vibe("session", "fork", grandparent).out.strip()
    child = vibe("session", "fork", parent).out.strip()
    old, young = say(vibe, "old"), say(vibe, "young")
    for session_id in (grandparent, parent, child, old):
        age(vibe, session_id, 31)
    age(vibe, young, 29)

    with lock_session(folder_of(vibe, child)):
        would = vibe("session", "prune", "--older-than", "30d", "--dry-run", "--output", "json").document
        assert len(listed(vibe)) == 5
        did = vibe("session", "prune", "--older-than", "30d", "--output", "json").document
        direct = vibe("session", "delete", parent)

    assert would == {**did, "dry_run": True}
    assert did["deleted"] == [old]
    assert {one["session_id"] for one in did["kept"]} == {grandparent, parent, child}
    assert f"session {parent} is what session {child} goes on from" in direct.err
    assert direct.code == 3
    assert listed(vibe).keys() == {grandparent, parent, child, young}
    assert vibe("session", "prune", "--older-than", "4w").out.count("deleted") == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "vibe: say how old, such as --older-than 30d"),
        (("--older-than", "30"), "must be an age such as 30d, 12h or 2w, not '30'"),
        (("--older-than", "-1d"), "--older-than"),
        (("--dry-run",), "say how old"),
    ],
)
def test_an_age_must_be_given(vibe: VibeCommand, words: tuple[str, ...], said: str) -> None:
    talk(vibe, "a")
    say(vibe, "hi")
    ended = vibe("session", "prune", *words)
    assert ended.code == 2
    assert said in ended.err
    assert len(listed(vibe)) == 1


def test_a_session_that_another_process_uses_is_not_pruned_in_between(vibe: VibeCommand) -> None:
    talk(vibe, "a")
    session = say(vibe, "hi")
    age(vibe, session, 2)
    folder = folder_of(vibe, session)
    holds = (
        f"import fcntl, sys; f = open({str(folder.lock)!r}); fcntl.flock(f, 2); print(1, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", holds], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert vibe("session", "prune", "--older-than", "1d").out.startswith(f"kept: session {session} is in use by")
        assert vibe("session", "rename", session, "x").code == 3
    assert list(listed(vibe)) == [session]


def test_words_are_found_in_titles_and_messages(vibe: VibeCommand) -> None:
    talk(vibe, "The Quick fox\nand the quick STRASSE")
    one = say(vibe, "about a dog")
    talk(vibe, "nothing")
    two = say(vibe, "else")
    talk(vibe, 'say "quoted" über\\all')
    three = say(vibe, "third")

    def found(*words: str) -> list[tuple[str, int | None, str]]:
        rows: list[dict[str, Any]] = vibe("session", "search", *words, "--output", "json").document
        return [(row["session_id"], row["message"], row["line"]) for row in rows]

    assert found("FOX") == [(one, 1, "The Quick fox")]
    assert found("DOG") == [(one, None, "about a dog"), (one, 0, "about a dog")]
    assert found("straße") == [(one, 1, "and the quick STRASSE")]
    assert found("quick", "fox") == [(one, 1, "The Quick fox")]
    assert found('"quoted"', "ÜBER\\all") == [(three, 1, 'say "quoted" über\\all')]
    assert found("quick", "nothing") == []
    line = vibe("session", "search", "nothing").out
    assert re.fullmatch(rf"{two[:12]}  \d{{4}}-\d\d-\d\d \d\d:\d\d      1  nothing\n", line)
    nothing = vibe("session", "search", "no such words")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "no session has these words\n")
    no_word = vibe("session", "search", "")
    assert (no_word.code, no_word.err) == (2, "vibe: there is no word to search for: give one\n")


def test_a_key_that_was_said_is_in_no_line_that_is_found(vibe: VibeCommand) -> None:
    talk(vibe, "done")
    say(vibe, f"deploy with {'x' * 20} sk-{'a1' * 20} please")
    for form in ("text", "json"):
        found = vibe("session", "search", "deploy", "--output", form).out
        assert ("[redacted]" in found, "sk-a1" in found) == (True, False), form


def test_a_word_is_found_whatever_letters_it_was_said_in(vibe: VibeCommand) -> None:
    talk(vibe, "in der Hauptstraße")
    session = say(vibe, "where?")
    [found] = vibe("session", "search", "strasse", "--output", "json").document
    assert (found["session_id"], found["message"]) == (session, 1)


def test_a_folder_that_holds_no_session_is_told_of_by_a_search(vibe: VibeCommand) -> None:
    folder = folder_of(vibe, "torn").path
    folder.mkdir(parents=True)
    (folder / "meta.json").write_text('{"version": 1, "ti')
    assert f"warning: the session in {folder} can't be read" in vibe("session", "search", "word").err


def test_a_session_gets_another_title(vibe: VibeCommand) -> None:
    talk(vibe, "a")
    session = say(vibe, "hi")

    assert vibe("session", "rename", session[:6], "A \x1b[31mnew\n title").code == 0

    assert listed(vibe) == {session: "A new title"}
    assert vibe("session", "rename", session, "  ").code == 2
    assert vibe("session", "rename", session, "x" * 201).code == 2
    assert listed(vibe) == {session: "A new title"}


def test_a_session_is_forked_whole_or_before_a_message(vibe: VibeCommand) -> None:
    talk(vibe, "one", "two", "three", "four")
    session = say(vibe, "first")
    say(vibe, "second", "--resume", session)

    whole = vibe("session", "fork", session).out
    part = vibe("session", "fork", session, "2", "--output", "json").document

    assert re.fullmatch(r"[0-9a-f]{32}\n", whole)
    assert part["messages"] == 2
    assert say(vibe, "third", "--resume", whole.strip()) == whole.strip()
    shown = vibe("session", "show", whole.strip(), "--output", "json").document
    assert [message["content"] for message in shown["messages"]] == ["first", "one", "second", "two", "third", "three"]
    assert shown["parent_id"] == session
    assert len(vibe("session", "show", part["session_id"], "--output", "json").document["messages"]) == 2
    refused = vibe("session", "fork", session, "99")
    assert (refused.code, "is not a point to rewind to" in refused.err) == (2, True)


SCRIPT = "<script>alert(1)</script><img src=x onerror=alert(2)>"


def test_an_export_is_one_page_without_secrets_that_loads_and_runs_nothing(vibe: VibeCommand) -> None:
    call = {
        "name": "bash",
        "arguments": {"command": f"echo '{SCRIPT}'; echo $OTHER_TOKEN; export API_KEY=key-in-arguments"},
    }
    vibe.replay({
        "agents": {"main": {"turns": [{"text": f"looking {SCRIPT}", "tool_calls": [call]}, {"text": "s3cr3t-Value-9"}]}}
    })
    (vibe.home / ".env").write_text("OTHER_TOKEN=s3cr3t-Value-9\n")
    (vibe.home / ".env").chmod(0o600)
    vibe.environ["MY_API_KEY"] = "key-ABCDEF-123456"
    session = say(vibe, f"my key is key-ABCDEF-123456 {SCRIPT}", "--yolo")

    page = vibe("session", "export", session, "--format", "html")
    assert vibe("session", "export", session, "--format", "html", "-o", "page.html").code == 0
    texts = [page.out, *(vibe("session", "export", session, "--format", form).out for form in ("md", "json"))]

    assert page.code == 0
    for text in texts:
        assert "key-ABCDEF-123456" not in text
        assert "s3cr3t-Value-9" not in text
        assert "[redacted]" in text
        assert "key-in-arguments" not in text
    assert json.loads(texts[2])["messages"][0]["role"] == "user"
    assert "<script" not in page.out
    assert "<img" not in page.out
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page.out
    assert "default-src 'none'" in page.out
    assert not re.search(r"<[^>]*\b(src|href|on\w+)\s*=|url\(|@import|https?://", page.out)
    written = vibe.workdir / "page.html"
    assert written.read_text() == page.out
    assert stat.S_IMODE(written.stat().st_mode) == 0o600
    printed = vibe("session", "export", session, "--format", "html", "-o", "-")
    assert (printed.code, printed.out, (vibe.workdir / "-").exists()) == (0, page.out, False)
    refused = vibe("session", "export", session, "-o", "no/such/folder.html")
    assert (refused.code, "-o no/such/folder.html: no folder" in refused.err) == (2, True)
    link = vibe.workdir / "link.html"
    link.symlink_to(written)
    assert vibe("session", "export", session, "-o", "link.html").code == 0
    assert (link.is_symlink(), written.read_text()) == (True, texts[1])


def test_a_session_of_another_program_is_not_changed(vibe: VibeCommand, tmp_path: Path) -> None:
    folder = vibe.home / "logs" / "session" / "session_20260101_abc"
    folder.mkdir(parents=True)
    meta = {"session_id": "abc123", "environment": {"working_directory": str(tmp_path)}, "title": "theirs"}
    (folder / "meta.json").write_text(json.dumps(meta))
    (folder / "messages.jsonl").write_text('{"role":"user","content":"hi","injected":false}\n')
    os.utime(folder / "messages.jsonl", (1, 1))

    assert vibe("session", "prune", "--older-than", "1d").out == "no session is that old\n"
    assert vibe("session", "rename", "abc123", "mine").code == 2
    fork = vibe("session", "fork", "abc123").out.strip()
    assert vibe("session", "rename", fork, "mine").code == 0
    assert set(listed(vibe).values()) == {"mine", "theirs"}
