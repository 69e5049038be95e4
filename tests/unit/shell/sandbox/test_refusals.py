from __future__ import annotations

import pytest

from vibe.shell.sandbox.refusals import is_unbegun, refusal_note
from vibe.shell.sandbox.settings import Network


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
        ("mv: cannot move 'ci' to 'ic': Device or resource busy", "moving what leads to these"),
        ("Error: EBUSY: resource busy or locked, rename 'ci' -> 'ic'", "[sandbox] writable"),
        ("cat: x: Permission denied", "[sandbox] readable"),
        ("Error: connect ECONNREFUSED 127.0.0.1:80", "localhost of its own"),
    ],
)
def test_a_refusal_names_the_setting(output: str, named: str) -> None:
    assert named in refusal_note(output, 1, "box", Network.LOOPBACK)


def test_root_is_told_why_it_does_not_write_the_files_of_another() -> None:
    note = refusal_note("sh: x: Permission denied", 1, "box", Network.LOOPBACK, owner=1000)
    assert "the workspace belongs to user 1000" in note
    assert "`setpriv --reuid=1000" in note


GONE = "/w/.git/worktrees/s1/gitdir"
MOUNTING = f"bwrap: Can't bind mount /oldroot{GONE} on /newroot{GONE}"
GAVE_UP = f'{MOUNTING}: Unable to remount destination "/newroot{GONE}" with correct flags: No such file or directory\n'


@pytest.mark.parametrize(
    ("exit_code", "said", "expected"),
    [
        (1, GAVE_UP, True),
        (1, f"bwrap: Can't get type of source /oldroot{GONE}: No such file or directory\n", True),
        (1, GAVE_UP.replace("No such file or directory", "Invalid argument"), True),
        (1, f'{MOUNTING}: Unable to find "/newroot{GONE}" in mount table\n', True),
        (1, f"{MOUNTING}: Unable to mount source on destination: No such file or directory\n", True),
        (1, f"{MOUNTING}: realpath(destination): No such file or directory\n", True),
        (1, f'{MOUNTING}: open("/newroot{GONE}", O_PATH): No such file or directory\n', True),
        (0, GAVE_UP, False),
        (1, f"{GAVE_UP}more\n", False),
        (1, f"before\n{GAVE_UP}", False),
        (1, GAVE_UP.replace("gitdir", "other"), False),
        (1, f'{MOUNTING}: Unable to find "/newroot{GONE}" in mount table\nmore\n', False),
        (1, GAVE_UP.replace("No such file or directory", "Permission denied"), False),
    ],
)
def test_a_sandbox_gave_up_only_if_a_file_that_may_go_was_gone(exit_code: int, said: str, *, expected: bool) -> None:
    argv = ("bwrap", "--ro-bind-try", GONE, GONE, "--", "sh", "-c", "x")
    assert is_unbegun(argv, exit_code, said) is expected
