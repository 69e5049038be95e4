from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import assume, given, settings, strategies as st

from tests.unit.core.tools.builtins.calling import Caller, make
from vibe.core.tools.builtins._blocks import apply_blocks, parse_blocks
from vibe.core.tools.builtins.read_file import ReadFile
from vibe.core.tools.builtins.search_replace import SearchReplace
from vibe.core.tools.builtins.write_file import WriteFile
from vibe.core.tools.errors import PathError, ToolError
from vibe.core.tools.workspace import Workspace


def block(search: str, replace: str) -> str:
    new = f"{replace}\n" if replace else ""
    return f"<<<<<<< SEARCH\n{search}\n=======\n{new}>>>>>>> REPLACE\n"


async def edited(tmp_path: Path, before: bytes, content: str) -> bytes:
    (tmp_path / "a.txt").write_bytes(before)
    await Caller(root=tmp_path).call(make(SearchReplace), file_path="a.txt", content=content)
    return (tmp_path / "a.txt").read_bytes()


async def test_blocks_are_applied_in_order_and_each_sees_the_one_before(tmp_path: Path) -> None:
    content = block("one", "uno") + "\n" + block("uno\ntwo", "1\n2")
    assert await edited(tmp_path, b"one\ntwo\nthree\n", content) == b"1\n2\nthree\n"


async def test_the_result_counts_blocks_and_lines(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\nb\nc\nd\n", encoding="utf-8")
    tool = make(SearchReplace)
    content = block("a\nb\nc", "a\nB\nc\nC") + block("d", "D")
    result = await Caller(root=tmp_path).call(tool, file_path="a.txt", content=content)
    assert (result.file, result.blocks_applied, result.lines_changed, result.warnings) == ("a.txt", 2, 3, [])
    assert tool.format_result(result) == "edited a.txt: 2 blocks, 3 lines changed"
    assert tool.files_changed(result) == ("a.txt",)


async def test_the_start_and_the_end_of_a_file_can_be_changed(tmp_path: Path) -> None:
    assert await edited(tmp_path, b"a\nm\nz", block("a", "A") + block("z", "Z")) == b"A\nm\nZ"


async def test_lines_replaced_by_nothing_are_gone_whole(tmp_path: Path) -> None:
    assert await edited(tmp_path, b"a\nb\nc\n", block("b", "")) == b"a\nc\n"
    assert await edited(tmp_path, b"a\nxbx\n", block("b", "")) == b"a\nxx\n"


async def test_an_empty_file_can_be_filled(tmp_path: Path) -> None:
    assert await edited(tmp_path, b"", "<<<<<<< SEARCH\n=======\nnew\n>>>>>>> REPLACE") == b"new\n"


async def test_crlf_and_the_byte_order_mark_stay(tmp_path: Path) -> None:
    before = b"\xef\xbb\xbfa\r\nb\r\nc\r\n"
    assert await edited(tmp_path, before, block("a\nb", "1\n2\n3")) == b"\xef\xbb\xbf1\r\n2\r\n3\r\nc\r\n"
    assert await edited(tmp_path, before, block("c", "x\ny")) == b"\xef\xbb\xbfa\r\nb\r\nx\r\ny\r\n"
    assert await edited(tmp_path, b"a\r\nb\r\n", block("a", "")) == b"b\r\n"


async def test_the_line_ends_of_old_macs_stay(tmp_path: Path) -> None:
    assert await edited(tmp_path, b"a\rb\rc\r", block("a\nb", "1\n2\n3")) == b"1\r2\r3\rc\r"
    assert await edited(tmp_path, "é\rb".encode("utf-16"), block("b", "x\ny")) == "é\rx\ry".encode("utf-16")


async def test_a_lone_lf_run_in_a_crlf_file_is_matched_as_it_is(tmp_path: Path) -> None:
    assert await edited(tmp_path, b"a\r\nb\r\nc\nd\r\n", block("c\nd", "C\nD")) == b"a\r\nb\r\nC\nD\r\n"


async def test_lines_that_end_in_both_ways_are_matched_together(tmp_path: Path) -> None:
    mixed = b"a\r\nb\nc\r\nd\r\n"
    assert await edited(tmp_path, mixed, block("b\nc\nd", "B\nD")) == b"a\r\nB\nD\r\n"
    assert await edited(tmp_path, mixed, block("a\nb\nc\nd", "1\n2")) == b"1\r\n2\r\n"
    with pytest.raises(ToolError, match="more than once"):
        await edited(tmp_path, b"a\r\nb\na\nb\n", block("a\nb", "x"))


@pytest.mark.parametrize("encoding", ["utf-16", "cp1252", "latin-1"])
async def test_other_encodings_stay(tmp_path: Path, encoding: str) -> None:
    after = await edited(
        tmp_path,
        "café\nbar\x81\n".encode(encoding) if encoding == "latin-1" else "café\nbar\n".encode(encoding),
        block("café", "thé"),
    )
    assert after.decode(encoding).startswith("thé\nbar")
    assert after[:2] == "x".encode(encoding)[:2] or encoding != "utf-16"


async def test_a_character_the_encoding_lacks_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="encoded as cp1252, which lacks '中'"):
        await edited(tmp_path, b"caf\xe9\n", block("caf", "中"))
    assert (tmp_path / "a.txt").read_bytes() == b"caf\xe9\n"


async def test_one_block_that_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"block 2 does not fit 'a\.txt', so nothing was changed"):
        await edited(tmp_path, b"one\ntwo\n", block("one", "1") + block("three", "3"))
    assert (tmp_path / "a.txt").read_bytes() == b"one\ntwo\n"


async def test_a_miss_shows_the_closest_place_as_a_diff(tmp_path: Path) -> None:
    before = (
        b"import os\n\ndef run(self, args):\n    value = args.value\n    return value\n\ndef stop(self):\n    pass\n"
    )
    with pytest.raises(ToolError, match="does not fit") as caught:
        await edited(tmp_path, before, block("def run(self, arg):\n    value = args.value\n    return value", "x"))
    assert "--- SEARCH\n+++ file, from line 3\n" in str(caught.value)
    assert "-def run(self, arg):\n+def run(self, args):\n" in str(caught.value)


async def test_a_miss_by_white_space_alone_is_called_that(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="only white space differs"):
        await edited(tmp_path, b"if x:\n\treturn 1\n", block("if x:\n    return 1", "x"))


async def test_a_change_already_made_is_said(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="made already"):
        await edited(tmp_path, b"new\n", block("old", "new"))


async def test_text_that_is_there_twice_is_refused_with_its_lines(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"more than once \(at lines 1, 3\)"):
        await edited(tmp_path, b"a\nb\na\n", block("a", "x"))
    with pytest.raises(ToolError, match="at lines 1, 1"):
        await edited(tmp_path, b"aaa", block("aa", "x"))


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("hello", "line 1 .*stands outside a block"),
        ("\n\n", "there is none"),
        ("<<<<<<< SEARCH\na\n=======\nb\n", "opened on line 1 has no end"),
        ("<<<<<<< SEARCH\na\n>>>>>>> REPLACE\n", "no line of equals signs"),
        ("<<<<<<< SEARCH\na\n====\nb\n>>>>>>> REPLACE\n", "no line of equals signs"),
        ("<<<<<<< SEARCH\na\n=======\nb\n=======\nc\n>>>>>>> REPLACE\n", "2 lines of equals signs"),
    ],
)
def test_content_that_is_no_block_says_what_is_the_matter(content: str, problem: str) -> None:
    with pytest.raises(ToolError, match=problem):
        parse_blocks(content)


def test_fences_around_blocks_and_five_signs_are_accepted() -> None:
    (found,) = parse_blocks("```python\n<<<<< SEARCH\r\na\r\n=====\r\nb\r\n>>>>> REPLACE\r\n```\n")
    assert (found.search, found.replace) == ("a", "b")


def test_longer_markers_let_text_hold_markers() -> None:
    inner = "<<<<<<< ours\nTitle\n=======\n>>>>>>> theirs"
    (found,) = parse_blocks(f"<<<<<<<<< SEARCH\n{inner}\n=========\nTitle\n=====\n>>>>>>>>> REPLACE")
    assert (found.search, found.replace) == (inner, "Title\n=====")


async def test_an_empty_search_in_a_file_with_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="SEARCH part is empty"):
        await edited(tmp_path, b"text", "<<<<<<< SEARCH\n=======\nnew\n>>>>>>> REPLACE")


async def test_blocks_may_not_be_longer_than_the_limit(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="more than 100000"):
        await edited(tmp_path, b"a", block("a", "x" * 100_000))


async def test_a_backup_is_made_where_it_is_wanted(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one", encoding="utf-8")
    tool = make(SearchReplace, create_backup=True)
    caller = Caller(root=tmp_path)
    result = await caller.call(tool, file_path="a.txt", content=block("one", "two"))
    assert (tmp_path / "a.txt.bak").read_text(encoding="utf-8") == "one"
    await caller.call(tool, file_path="a.txt", content=block("two", "three"))
    assert (tmp_path / "a.txt.bak").read_text(encoding="utf-8") == "two"
    assert tool.files_changed(result) == ("a.txt", "a.txt.bak")
    judged = tool.assess(tool.parse({"file_path": "a", "content": "x"}), Workspace(root=tmp_path))
    assert {access.path for access in judged.paths} == {"a", "a.bak"}


async def test_the_agent_still_knows_a_file_it_has_edited_but_not_one_it_has_only_edited(tmp_path: Path) -> None:
    for name in ("seen", "unseen"):
        (tmp_path / name).write_text("one", encoding="utf-8")
    caller = Caller(root=tmp_path)
    await caller.call(make(ReadFile), path="seen")
    for name in ("seen", "unseen"):
        await caller.call(make(SearchReplace), file_path=name, content=block("one", "two"))
    await caller.call(make(WriteFile), path="seen", content="x", overwrite=True)
    with pytest.raises(ToolError, match="was not read"):
        await caller.call(make(WriteFile), path="unseen", content="x", overwrite=True)


async def test_the_mode_stays_and_nothing_outside_is_touched(tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch(mode=0o700)
    await edited(tmp_path, b"a", block("a", "b"))
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o700
    with pytest.raises(PathError, match="leads outside the workspace"):
        await Caller(root=tmp_path).call(make(SearchReplace), file_path="../x", content=block("a", "b"))


@pytest.mark.parametrize("line", ["    value_{0} = compute(value_{0}, other_{0})\n", "x{0}", "same line\n"])
def test_a_miss_in_a_large_file_is_described_quickly(line: str) -> None:
    text = "".join(line.format(number) for number in range(20_000))[:1_000_000]
    search = "\n".join(f"nothing like {number} in there at all" for number in range(200))
    began = time.monotonic()
    with pytest.raises(ToolError, match="does not fit") as caught:
        apply_blocks(text, parse_blocks(block(search, "x")), "a")
    assert time.monotonic() - began < 100
    assert len(str(caught.value)) < 6_000


@settings(deadline=None)
@given(before=st.text(), search=st.text(min_size=1), after=st.text(), replace=st.text(min_size=1))
def test_a_unique_match_is_replaced_as_str_replace_does(before: str, search: str, after: str, replace: str) -> None:
    text = before + search + after
    assume("\r" not in text + replace)
    assume(text.find(search) == text.rfind(search))
    assume(not any(sign in search + replace for sign in ("<<<<<", "=====", ">>>>>")))
    assert apply_blocks(text, parse_blocks(block(search, replace)), "a") == text.replace(search, replace)


@settings(deadline=None)
@given(text=st.text("ab \n", max_size=60), search=st.text("ab\n", min_size=1, max_size=4))
def test_either_it_is_unique_or_nothing_happens(text: str, search: str) -> None:
    count = sum(text.startswith(search, index) for index in range(len(text)))
    try:
        changed = apply_blocks(text, parse_blocks(block(search, "X")), "a")
    except ToolError:
        assert count != 1
    else:
        assert count == 1
        assert changed == text.replace(search, "X")


async def test_old_and_new_strings_are_an_edit_too(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"one two one\r\n=======\r\nend\r\n")
    caller, tool = Caller(root=tmp_path), make(SearchReplace)
    await caller.call(tool, file_path="a.txt", old_string="two", new_string="2")
    await caller.call(tool, file_path="a.txt", old_string="one", new_string="1", replace_all=True)
    result = await caller.call(
        tool,
        file_path="a.txt",
        edits=[{"old_string": "=======\nend", "new_string": "x\ny"}, {"old_string": " 2", "new_string": ""}],
    )
    assert (tmp_path / "a.txt").read_bytes() == b"1 1\r\nx\r\ny\r\n"
    assert result.blocks_applied == 2
    assert "old_string" not in str(tool.get_parameters())
    with pytest.raises(ToolError, match="more than once"):
        await caller.call(tool, file_path="a.txt", old_string="1", new_string="2")
    with pytest.raises(ToolError, match="content"):
        await caller.call(tool, file_path="a.txt", edits=[])


async def test_an_edit_that_breaks_json_or_yaml_is_said(tmp_path: Path) -> None:
    caller, tool = Caller(root=tmp_path), make(SearchReplace)
    for name, text in (("a.json", '{"a": 1}'), ("a.yaml", "a: [1]\n"), ("b.json", "// 1\n{}"), ("a.txt", '{"a": 1}')):
        (tmp_path / name).write_text(text)
    for name, old, new in (("a.json", "1}", "1"), ("a.yaml", "1]", "1"), ("b.json", "{}", "{"), ("a.txt", "1}", "1")):
        result = await caller.call(tool, file_path=name, old_string=old, new_string=new)
        assert bool(result.warnings) is name.startswith(("a.json", "a.yaml"))
    assert (tmp_path / "a.json").read_text() == '{"a": 1'


async def test_how_like_a_place_must_be_to_be_shown_is_a_setting(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("the quick brown fox\n")
    for threshold, shown in ((0.5, True), (0.99, False)):
        with pytest.raises(ToolError, match="does not fit") as error:
            await Caller(root=tmp_path).call(
                make(SearchReplace, fuzzy_threshold=threshold),
                file_path="a.txt",
                content=block("the quick red fox", "x"),
            )
        assert ("The closest place" in str(error.value)) is shown


EQUAL = (
    ("cafe\u0301 one\n", "caf\u00e9 one", "tea\n"),
    ("caf\u00e9 one\n", "cafe\u0301 one", "tea\n"),
    ("x\nnai\u0308ve cafe\u0301 one\r\ny\r\n", "na\u00efve caf\u00e9 one", "x\ntea\r\ny\r\n"),
    ("\ud55c\uad6d\n", "\u1112\u1161\u11ab\u1100\u116e\u11a8", "tea\n"),
    ("\u1112\u1161\u11ab\u1100\u116e\u11a8\n", "\ud55c\uad6d", "tea\n"),
    ("q\u0307\u0323\n", "q\u0323\u0307", "tea\n"),
    ("\u212bngstr\u00f6m\n", "\u00c5ngstr\u00f6m", "tea\n"),
)


@pytest.mark.parametrize(("text", "old", "after"), EQUAL)
async def test_text_that_unicode_calls_equal_is_found(tmp_path: Path, text: str, old: str, after: str) -> None:
    assert await edited(tmp_path, text.encode(), block(old, "tea")) == after.encode()


async def test_equal_text_is_counted_and_no_character_is_cut(tmp_path: Path) -> None:
    twice = "cafe\u0301\ncafe\u0301\n".encode()
    with pytest.raises(ToolError, match="at lines 1, 2"):
        await edited(tmp_path, twice, block("caf\u00e9", "tea"))
    (tmp_path / "a.txt").write_bytes(twice)
    arguments = {"old_string": "caf\u00e9", "new_string": "tea", "replace_all": True}
    await Caller(root=tmp_path).call(make(SearchReplace), file_path="a.txt", **arguments)
    assert (tmp_path / "a.txt").read_text() == "tea\ntea\n"
    with pytest.raises(ToolError, match="does not fit"):
        await edited(tmp_path, "\u1112\u1161\u11ab\n".encode(), block("\ud558", "tea"))


ALIKE = (
    ("it\u2019s\n", "it's", "U+2019 RIGHT SINGLE QUOTATION MARK where SEARCH has U+0027 APOSTROPHE"),
    ("say \u201cso\u201d\n", 'say "so"', "U+201C LEFT DOUBLE QUOTATION MARK where"),
    ("a \u2013 b\n", "a - b", "U+2013 EN DASH where SEARCH has U+002D HYPHEN-MINUS"),
    ("a\u00a0b\n", "a b", "U+00A0 NO-BREAK SPACE where SEARCH has U+0020 SPACE"),
    ("a\u3000b\n", "a b", "U+3000 IDEOGRAPHIC SPACE where"),
    ("a\u200bb\n", "ab", "U+200B ZERO WIDTH SPACE where SEARCH has nothing"),
    ("ab\n", "a\u00adb", "nothing where SEARCH has U+00AD SOFT HYPHEN"),
    ("\uff41 = 1\n", "a = 1", "U+FF41 FULLWIDTH LATIN SMALL LETTER A where SEARCH has U+0061"),
    ("p\u0430ss\n", "pass", "U+0430 CYRILLIC SMALL LETTER A where SEARCH has U+0061"),
    ("wait\u2026\n", "wait...", "U+2026 HORIZONTAL ELLIPSIS where"),
    ("x\u2212y\n", "x-y", "U+2212 MINUS SIGN where"),
)


@pytest.mark.parametrize(("line", "old", "told"), ALIKE)
async def test_a_character_that_only_looks_the_same_is_named(tmp_path: Path, line: str, old: str, told: str) -> None:
    with pytest.raises(ToolError, match="does not fit") as error:
        await edited(tmp_path, f"first\nsecond {line}".encode(), block(old, "x"))
    assert f"line 2: the file has {told}" in str(error.value)


async def test_white_space_at_the_end_of_lines_is_told(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="only white space differs"):
        await edited(tmp_path, b"one  \ntwo\n", block("one\ntwo", "x"))


async def test_new_text_elsewhere_does_not_hide_the_closest_place(tmp_path: Path) -> None:
    text = b"def one():\n    return 1\n\ndef two():\n    value = compute(22)\n    return value\n"
    with pytest.raises(ToolError, match="does not fit") as error:
        await edited(tmp_path, text, block("    value = compute(2)\n    return value", "    return 1"))
    assert "made already" not in str(error.value)
    assert "The closest place" in str(error.value)
    assert "compute(22)" in str(error.value)


async def test_new_text_where_the_old_would_be_is_told(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"\(line 2\): the change seems to be made already"):
        await edited(tmp_path, b"a\nvalue = 2\nb\n", block("value = 1", "value = 2"))
    with pytest.raises(ToolError, match=r"\(line 2\): the change seems to be made already"):
        await edited(tmp_path, b"a\nimport something\nb\n", block("from elsewhere import it", "import something"))
