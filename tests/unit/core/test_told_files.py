"""Files named in a prompt are found, and nothing else is taken for one."""

from __future__ import annotations

import pytest

from vibe.core.told_files import split_files, with_files


def test_what_was_put_below_a_prompt_is_found_again() -> None:
    files = [("a.py", "x = 1\n</file> is no end here\n"), ("docs/b c.md", ""), ("c", '<file path="d">\nno file\n')]

    assert split_files(with_files("look at these\n\nplease", files)) == ("look at these\n\nplease", files)


@pytest.mark.parametrize(
    "told", ["hello", "", '<file path="a">\nx\n</file>', 'see\n\n<file path="a">\nx\n</file> and more']
)
def test_a_prompt_without_files_is_all_there_is(told: str) -> None:
    assert split_files(told) == (told, ())
