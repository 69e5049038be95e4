from __future__ import annotations

import pytest

from vibe.cli.textual_ui.log.markdown_blocks import blocks_of, highlighted
from vibe.cli.textual_ui.log.painter import diff_blocks

DIFF = """--- a/x.py
+++ b/x.py
@@ -8,4 +8,4 @@ def f():
 same
-old
--- not a header
+new
+++ not one either
 end
"""


def read(text: str, cols: int = 60) -> list[str]:
    lines: list[str] = []
    for block in blocks_of(text, cols):
        for number, line in enumerate(block.content.plain.split("\n")):
            lines.append(((block.rest if number else block.first) + line).rstrip())
    return lines


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("# Head\ntext", ["Head", "", "text"]),
        ("a **b** *c* ~~d~~ `e`", ["a b c d e"]),
        ("- one\n- two\n  - three\n", ["• one", "• two", "  ◦ three"]),
        ("9. nine\n10. ten\n    more", ["9. nine", "10. ten", "    more"]),
        ("- one\n\n- two", ["• one", "", "• two"]),
        ("- \n- x", ["•", "• x"]),
        ("> a\n> - b", ["▌ a", "▌", "▌ • b"]),
        ("```py\nx = 1\n\ny = 2\n```", ["x = 1", "", "y = 2"]),
        ("```\nnever closed", ["never closed"]),
        ("- a\n  ```py\n  x\n  ```", ["• a", "  x"]),
        ("    indented", ["indented"]),
        ("a\n\n---\n\nb", ["a", "", "────────────", "", "b"]),
        ("[red]x[/red] [@click=app.quit]y[/]", ["[red]x[/red] [@click=app.quit]y[/]"]),
        ("<b>html</b>", ["<b>html</b>"]),
        ("[text](http://x.y/z)", ["text (http://x.y/z)"]),
        ("[http://x.y](http://x.y) https://z.w", ["http://x.y https://z.w"]),
        ("[here](a/b.py)", ["here"]),
        ("![a picture](p.png)", ["[image: a picture]"]),
        ("**never closed `nor this", ["**never closed `nor this"]),
        ("a &#x202e;b &lt;", ["a b <"]),
        ("| a | b |\n|--|--:|\n| one | 2 |", ["a   │ b", "────┼──", "one │ 2"]),
        ("| only | a head |", ["| only | a head |"]),
    ],
)
def test_markdown_is_read_as_lines(text: str, lines: list[str]) -> None:
    assert read(text) == [line.rstrip() for line in lines]


def test_a_table_wraps_its_cells_in_a_narrow_window() -> None:
    lines = read("| name | text |\n|---|---|\n| a | many words that do not fit |", 20)

    assert all(len(line) <= 20 for line in lines)
    assert " ".join(line.partition("│")[2].strip() for line in lines[2:]) == "many words that do not fit"


def test_code_is_coloured_by_its_language_and_stays_the_text_it_is() -> None:
    (block,) = blocks_of("```python\ndef f():\n\treturn 1\n```", 60)

    assert block.content.plain == "def f():\n    return 1"
    assert [
        block.content.plain[start:end]
        for start, end, style in block.content.spans
        if style == "$text-accent" and start > 4
    ] == ["return"]
    assert block.look == "chat-log--code"


def test_an_unknown_language_is_shown_as_it_is() -> None:
    (block,) = blocks_of("```no-such\nx\n```", 60)

    assert block.content.plain == "x"


def test_a_diff_has_line_numbers_and_colours() -> None:
    lines = [(block.first.strip(), block.content.plain, block.look.rpartition("-")[2]) for block in diff_blocks(DIFF)]

    assert lines == [
        ("", "⋮ def f():", ""),
        ("8", "  same", ""),
        ("9", "- old", "removed"),
        ("10", "- -- not a header", "removed"),
        ("9", "+ new", "added"),
        ("10", "+ ++ not one either", "added"),
        ("11", "  end", ""),
    ]


MANY = """--- a/x.py
+++ b/x.py
@@ -1 +1 @@
-old
+new
@@ -7 +7 @@
-old
+new
--- /dev/null
+++ b/y.py
@@ -0,0 +1 @@
+y
--- a/z.py
+++ /dev/null
@@ -1 +0,0 @@
-z
"""


def test_files_of_a_diff_are_named_where_there_are_more_or_they_come_or_go() -> None:
    lines = [block.content.plain for block in diff_blocks(MANY)]
    new = [block.content.plain for block in diff_blocks("--- /dev/null\n+++ b/y.py\n@@ -0,0 +1 @@\n+y\n")]

    assert lines == [
        "x.py", "- old", "+ new", "⋮", "- old", "+ new", "y.py (new)", "+ y", "z.py (deleted)", "- z",
    ]  # fmt: skip
    assert new == ["y.py (new)", "+ y"]


def test_what_is_no_diff_comes_as_it_is() -> None:
    assert [block.content.plain for block in diff_blocks("a\x1b[2J\n\\ b")] == ["a", "\\ b"]


@pytest.mark.parametrize("last", ["x = 1", "", "  ", "\ttab", "'''open", "# é 日本"])
def test_the_lines_of_a_diff_have_the_colours_of_their_language_and_stay_the_text_they_are(last: str) -> None:
    text = f"--- a/x.py\n+++ b/x.py\n@@ -1,3 +1,3 @@\n-def f():\n+    return 1\n \n+{last}"
    blocks = list(diff_blocks(text))
    plain = list(diff_blocks(text.replace("x.py", "x")))

    assert [block.content.plain for block in blocks] == [block.content.plain for block in plain]
    assert any(style == "$text-error" for start, _, style in blocks[0].content.spans if start == 0), (
        "the sign has its own"
    )
    returned = [
        blocks[1].content.plain[start:end] for start, end, style in blocks[1].content.spans if style == "$text-accent"
    ]
    assert returned == ["return"]


def test_code_has_no_colour_of_what_needs_a_person_or_has_failed() -> None:
    code = "import os\nLIMIT = 3\nclass Basket:\n    def total(self): return 1.5 if not None else os.name\n"
    samples = [(code, "python"), ('<a href="b">c</a>', "html"), ("const A = true; f(1)", "javascript"), ("?", "json")]
    styles = {str(span.style) for text, language in samples for span in highlighted(text, language).spans}

    assert "$text-accent" in styles
    assert not [style for style in styles if "warning" in style or "error" in style]
