"""Printed text as a terminal finally shows it: the last of rewritten lines, without colours, however it is cut."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from tests.unit.core.tools.test_background import nothing
from vibe.core.tools.background import background_commands
from vibe.shell.process.capture import Capture, OutputLimit
from vibe.shell.process.port import CommandOrder
from vibe.shell.process.runner import RunningCommand, run_command, shell_argv
from vibe.shell.process.screen import Screen, shown

ENVIRON = {"PATH": "/usr/bin:/bin"}
CASES = {
    "plain text stays as it is": ("a  \n\tb \n\nc", "a  \n\tb \n\nc"),
    "carriage return": ("10 %\r20 %\r100 %\nEND\n", "100 %\nEND\n"),
    "each frame ends with the return": ("10 %\r20 %\r30 %\r", "30 %"),
    "a shorter frame leaves the rest": ("abcdef\rxy\n", "xycdef\n"),
    "blanks wipe a frame": ("Downloading a.tar\r                 \rDone\n", "Done\n"),
    "line ends of windows": ("a\r\nb\r\r\n", "a\nb\n"),
    "backspaces": ("spin |\b/\b-\b\\\n", "spin \\\n"),
    "backspace stops at the beginning": ("\b\bx\n", "x\n"),
    "erase to the end of the line": ("abcdef\r\x1b[3Cx\x1b[K\n", "abcx\n"),
    "erase the line": ("step 1 of 9\x1b[2K\rstep 2\n", "step 2\n"),
    "erase to the beginning": ("abc\x1b[3D\x1b[2C\x1b[1K|\n", "  |\n"),
    "column": ("abc\x1b[1Gx\x1b[3Gz\n", "xbz\n"),
    "bars of several lines": ("a 1\nb 1\n\x1b[2Aa 2\nb 2\n\x1b[2Fa 3\nb 3\nend\n", "a 3\nb 3\nend\n"),
    "bars are erased below": ("a\nb\nc\n\x1b[3A\x1b[Jdone\n", "done\n"),
    "cleared screens": ("\x1b[H\x1b[2Jtick 1\n\x1b[H\x1b[2Jtick 2\n", "tick 2\n"),
    "colours": ("\x1b[1;31mred\x1b[0m \x1b[38;5;4mblue\x1b[m\n", "red blue\n"),
    "sequences with one-character beginnings": (
        "\x9b31mred\x9bm \x9d0;title\x9cend\n10 %\r\x9bKdone\n",
        "red end\ndone\n",
    ),
    "titles and links": ("\x1b]0;title\x07\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n", "link\n"),
    "a title without an end costs its line": ("a\x1b]0;title\nb\n", "a\nb\n"),
    "hidden cursor, bell, character set": ("\x1b[?25l\x1b(B\x07on\x1b[?25h\n", "on\n"),
    "a cursor that is sent far away": ("x\x1b[999999999A\x1b[999999999999C\x1b[1Gy\n", "y\n"),
    "characters of several bytes": ("█░░ é\r██░ é\n", "██░ é\n"),
}


@pytest.mark.parametrize(("printed", "seen"), CASES.values(), ids=CASES)
def test_what_a_terminal_shows_in_the_end_is_what_counts(printed: str, seen: str) -> None:
    assert shown(printed) == seen


@pytest.mark.parametrize("printed", [case[0] for case in CASES.values()], ids=CASES)
def test_it_is_the_same_however_often_what_waits_is_looked_at(printed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = shown(printed)
    monkeypatch.setattr("vibe.shell.process.screen.MAX_CHARACTERS", 60)
    long = "\x1b]0;" + "t" * 100 + "\x07"
    screen = Screen()
    pieces = [screen.feed(char) for part in printed.split("\n") for char in f"{long}{part}\n"]
    assert "".join(pieces) + screen.flush() == f"{seen}\n"


def test_a_flood_is_not_held_in_memory_and_loses_nothing_that_a_terminal_keeps() -> None:
    screen = Screen()
    lines = "".join(f"line {number}\n" for number in range(100_000))
    settled = "".join(screen.feed(lines[start : start + 65_536]) for start in range(0, len(lines), 65_536))
    rest = screen.flush()
    assert settled + rest == lines
    assert len(rest) < 100_000

    pieces = [screen.feed("x" * 65_536) for _ in range(100)]
    rest = screen.flush()
    assert sum(map(len, pieces)) + len(rest) == 100 * 65_536
    assert len(rest) < 100_000


async def test_characters_that_come_in_two_pieces_are_whole_and_what_is_no_text_is_marked() -> None:
    capture = Capture("stdout", OutputLimit())
    capture.feed(b"a\xff\xc3")
    capture.feed(b"\xa9\n\xc3")
    await capture.finish()
    assert capture.text() == "a\ufffd\u00e9\n\ufffd"


async def test_frames_of_a_progress_line_take_no_room_from_what_a_command_says(tmp_path: Path) -> None:
    line = r"echo begin; for i in $(seq 3000); do printf '\rfetched %s of 3000' $i; done; echo; echo END"
    result = await run_command(line, cwd=tmp_path, environ=ENVIRON, limit=OutputLimit(shown=400, keep_in=tmp_path))
    assert result.stdout == "begin\nfetched 3000 of 3000\nEND\n"
    assert not result.stdout_dropped
    assert not result.output_files

    raw = await run_command(r"printf '1\r2\n'", cwd=tmp_path, environ=ENVIRON, limit=OutputLimit(raw=True))
    assert raw.stdout == "1\r2\n"


@pytest.mark.parametrize("piece", [b"frame\r" * 10_000, b"line\n" * 12_000])
async def test_output_beyond_what_is_kept_is_not_rendered_but_for_its_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, piece: bytes
) -> None:
    rendered: list[int] = []
    feed = Screen.feed

    def counting(screen: Screen, text: str) -> str:
        rendered.append(len(text))
        return feed(screen, text)

    monkeypatch.setattr(Screen, "feed", counting)
    capture = Capture("stdout", OutputLimit(shown=400, keep_in=tmp_path, kept=100_000))
    for data in (b"begin\n", *[piece] * 100, b"\nEND\n"):
        capture.feed(data)
    await capture.finish()
    assert sum(rendered) < 1_000_000
    assert capture.text().startswith("begin\n")
    assert capture.text().endswith("\nEND\n")
    assert 5_000_000 < capture.dropped < 6_000_000
    if capture.file is not None:
        kept = await anyio.Path(capture.file).read_text()
        assert kept.endswith("\n[... the rest was not kept ...]\n")


async def test_a_background_command_is_read_without_its_frames(tmp_path: Path) -> None:
    line = r"for i in 1 2 3; do printf '%s of 3\r' $i; done; printf '\n\033[32mready\033[m\n'"
    order = CommandOrder(argv=tuple(shell_argv(line)), cwd=tmp_path, environ=ENVIRON)
    async with background_commands() as commands:
        handle = commands.adopt(await RunningCommand.start(order), line, nothing)
        read = ""
        while (report := await commands.report(handle, wait_seconds=30)).exit_code is None:
            read += report.output
        assert (read + report.output).endswith("3 of 3\nready\n")
        assert "\x1b" not in read
