from __future__ import annotations

import pytest

from vibe.core.config.models import Network
from vibe.core.sandbox.refusals import refusal_note


@pytest.mark.parametrize(
    "output",
    [
        "ModuleNotFoundError: No module named 'x'",
        "FileNotFoundError: [Errno 2] No such file or directory: 'x'",
        "class EpermanentFailure: ...",
        "ZEROFSCK",
        "preexdevelop failed",
        "KeyError: 'econnrefused_count'",
    ],
)
@pytest.mark.parametrize("exit_code", [0, 1])
def test_what_only_holds_the_letters_of_an_error_code_is_none(output: str, exit_code: int) -> None:
    assert refusal_note(output, exit_code, "box", Network.LOOPBACK) == ""


@pytest.mark.parametrize(
    ("output", "named"),
    [
        ("npm ERR! code ENOTFOUND", "[sandbox] network"),
        ("Error: getaddrinfo EAI_AGAIN example.invalid", "[sandbox] network"),
        ("touch: x: Read-only file system", "[sandbox] writable"),
        ("OSError: [Errno 30] EROFS: read-only", "[sandbox] writable"),
        ("cat: x: Permission denied", "[sandbox] readable"),
        ("Error: connect ECONNREFUSED 127.0.0.1:80", "localhost of its own"),
    ],
)
def test_a_refusal_names_the_setting(output: str, named: str) -> None:
    assert named in refusal_note(output, 1, "box", Network.LOOPBACK)


def test_root_is_told_why_it_does_not_write_the_files_of_another() -> None:
    note = refusal_note("sh: x: Permission denied", 1, "box", Network.LOOPBACK, owner=1000)
    assert "the workspace is of user 1000" in note
    assert "`setpriv --reuid=1000" in note
