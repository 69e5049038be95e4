"""Diffs written by git, read file by file and hunk by hunk."""

from __future__ import annotations

from vibe.dashboard import changes
from vibe.dashboard.changes import hunks_of, parse_diff

DIFF = """diff --git a/a b.py b/a b.py
index 1..2 100644
--- a/a b.py\t
+++ b/a b.py\t
@@ -1,3 +1,3 @@ def x():
 same
-old\r
+new\r
 last
\\ No newline at end of file
diff --git a/made.txt b/made.txt
new file mode 100644
index 0..2
--- /dev/null
+++ b/made.txt
@@ -0,0 +1 @@
+--- a/trap
diff --git a/gone.txt b/gone.txt
deleted file mode 100644
index 0..2
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-diff --git a/x b/x
diff --git a/was.txt b/is.txt
similarity index 100%
rename from was.txt
rename to is.txt
diff --git a/p.png b/p.png
index 1..2 100644
Binary files a/p.png and b/p.png differ
"""


def test_each_kind_of_change_is_read() -> None:
    found = {file["path"]: file for file in parse_diff(DIFF)}
    assert list(found) == ["a b.py", "made.txt", "gone.txt", "is.txt", "p.png"]
    assert found["a b.py"]["hunks"] == [
        {
            "old": [1, 3],
            "new": [1, 3],
            "lines": [
                [" ", "same"],
                ["-", "old\r"],
                ["+", "new\r"],
                [" ", "last"],
                ["\\", " No newline at end of file"],
            ],
        }
    ]
    assert (found["a b.py"]["added"], found["a b.py"]["removed"]) == (1, 1)
    assert found["made.txt"]["hunks"][0]["lines"] == [["+", "--- a/trap"]]
    assert [file["status"] for file in found.values()] == ["modified", "added", "deleted", "renamed", "modified"]
    assert (found["is.txt"]["old"], found["p.png"]["binary"]) == ("was.txt", True)


def test_what_is_no_diff_has_no_hunks() -> None:
    assert hunks_of(["it is not text, or was too large to be recorded"]) == []
    assert list(parse_diff("")) == []


def test_a_diff_that_is_too_large_is_cut() -> None:
    lines = ["@@ -0,0 +1 @@", "+" + "x" * (changes.MOST_BYTES + 1)]
    file = {"hunks": hunks_of(lines), "cut": False}
    (bounded,) = changes.bounded([file])
    assert (bounded["cut"], bounded["hunks"]) == (True, [])
