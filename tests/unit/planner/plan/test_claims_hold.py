"""The paths that the scheduler thinks two steps may write include all that the tools let them write."""

from __future__ import annotations

from hypothesis import given, strategies as st

from planner.plan.write_claims import globs_overlap, parse_glob
from vibe.system.globs import matches_any

names = st.sampled_from(["a", "b", "ab", "a.py", "b.md", "*", "a*", "*.py", "**", "[ab]", "?"])
globs = st.lists(names, min_size=1, max_size=3).map("/".join)
paths = st.lists(st.sampled_from(["a", "b", "ab", "a.py", "b.md"]), min_size=1, max_size=4).map("/".join)


@given(globs, globs, paths)
def test_two_steps_that_may_both_write_a_file_never_run_side_by_side(one: str, other: str, path: str) -> None:
    if matches_any(path, [one]) and matches_any(path, [other]):
        assert globs_overlap(parse_glob(one), parse_glob(other))


def test_a_folder_by_its_plain_name_covers_what_is_below_it() -> None:
    assert matches_any("docs/a/b.md", ["docs"])
    assert not matches_any("docs/a/b.md", ["docs/*"])
    assert not matches_any("docs2/a.md", ["docs"])
