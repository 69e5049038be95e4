from __future__ import annotations

import os
import sys
from pathlib import Path

import anyio.to_thread
import pytest

from vibe.shell.process.capture import MAX_TAIL, OutputLog
from vibe.shell.process.runner import OutputLimit, run_command
from vibe.system.redaction import MASK, redact

WORD = "correct-horse-battery"


def log_of(path: Path, most: int = 1_000_000) -> OutputLog:
    return OutputLog(lambda: path, lambda text: redact(text, {"MY_TOKEN": WORD}), most=most)


async def test_all_that_a_command_prints_is_kept_however_much_it_is(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    log = log_of(path)

    script = "for n in range(40000): print('line', n)"
    environ = {"PATH": os.environ["PATH"]}
    result = await run_command(
        [sys.executable, "-c", script], cwd=tmp_path, environ=environ, limit=OutputLimit(log=log)
    )
    log.end()
    await anyio.to_thread.run_sync(log.write)

    assert result.stdout_dropped > 0
    assert path.read_text().splitlines() == [f"line {n}" for n in range(40_000)]
    assert path.stat().st_mode & 0o777 == 0o600


def test_lines_of_both_streams_stay_whole_and_without_secrets(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    log = log_of(path)

    log.feed("stdout", b"it is " + WORD[:9].encode())
    log.write()
    log.feed("stderr", b"another line\n")
    log.feed("stdout", WORD[9:].encode() + b" indeed\nthe last")
    log.end()
    log.write()

    assert path.read_text() == f"another line\nit is {MASK} indeed\nthe last\n"


def test_a_key_is_masked_however_many_writes_its_lines_come_in(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    log = log_of(path)

    for line in ("a line", "-----BEGIN PRIVATE KEY-----", *["MIIEpAIBAAKCAQEA1234"] * 30, "-----END PRIVATE KEY-----"):
        log.feed("stdout", f"{line}\n".encode())
        log.write()
    log.feed("stdout", b"-----BEGIN PRIVATE KEY-----\nMIIEpAIBAAKCAQEA1234\n")
    log.write()
    log.end()
    log.write()

    assert path.read_text().splitlines() == ["a line", MASK, MASK]


def test_a_long_line_is_cut_between_secrets(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    log = log_of(path, most=10_000_000)
    text = f"{WORD},".encode() * 20_000

    for start in range(0, len(text), 65_536):
        log.feed("stdout", text[start : start + 65_536])
        log.write()
    log.end()
    log.write()

    assert path.read_text() == f"{MASK}," * 20_000 + "\n"


def test_the_end_that_is_kept_begins_with_no_part_of_a_secret(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    log = log_of(path, most=100)

    log.feed("stdout", b"x" * 99 + b"\n" + f"{WORD},".encode() * 60_000)
    log.end()
    log.write()

    assert set(path.read_text().splitlines()[-1].split(",")) == {MASK, ""}


def test_beyond_the_limit_the_end_is_kept_and_what_is_missing_is_said(tmp_path: Path) -> None:
    path = tmp_path / "output.log"
    log = log_of(path, most=100)

    for _ in range(10):
        log.feed("stdout", b"x" * 99 + b"\n" + b"y" * MAX_TAIL)
    log.feed("stdout", b"\nthe end\n")
    log.end()
    log.write()

    text = path.read_text()
    assert text.startswith("x" * 99 + "\n[... ")
    assert "bytes were not kept ...]\n" in text
    assert text.endswith("\nthe end\n")
    assert len(text) < 2 * MAX_TAIL


def test_a_disk_that_refuses_ends_the_log_and_nothing_else(tmp_path: Path) -> None:
    log = log_of(tmp_path / "no" / "folder" / "output.log")

    log.feed("stdout", b"one\n")
    log.write()
    log.feed("stdout", b"two\n")

    assert log.waiting == 0


@pytest.mark.timeout(20)
@pytest.mark.parametrize("text", ["a" * 300_000, "token" * 60_000, "bearer" + " " * 300_000, "://a:" * 60_000])
def test_looking_for_secrets_takes_no_longer_than_reading(text: str) -> None:
    assert redact(text, {}) is not None
