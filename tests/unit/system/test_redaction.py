"""Secrets are removed from what is printed and kept. Text that only looks a little like one stays."""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path

import pytest
from anyio import to_thread

from ipc.events import ToolCallEvent, ToolResultEvent, ToolStreamEvent
from tests.fakes.tools import ExecutorRig, call
from vibe.core.tools.gate import Approvals
from vibe.core.tools.permissions import ApprovalMode
from vibe.shell.process.capture import Capture
from vibe.shell.process.runner import OutputLimit, child_environ, run_command
from vibe.system.redaction import LONGEST, MASK, Mask, PieceMask, redact, safe_cut

ENVIRON = {
    "PATH": "/usr/bin:/bin",
    "MISTRAL_API_KEY": "x7Jq-very-secret-1",
    "DATABASE_PASSWORD": "corr3ct horse",
    "SHORT_TOKEN": "1",
    "SSH_AUTH_SOCK": "/run/ssh-abc/agent.1",
    "GIT_AUTHOR_NAME": "Ada Lovelace 1815",
    "SECRET_KEY": "development",
    "MAX_TOKENS": "10000000",
}
TOKENS = (
    "sk-proj-abcdEFGH1234ijkl5678", "ghp_16C7e42F292c6912E7710c838347Ae178B4a", "github_pat_11ABCDEFG0_abcdefghijkl",
    "glpat-abc1def2ghi3jkl4mno5", "AKIAIOSFODNN7EXAMPLE", "xoxb-123456789012-abcdef", "hf_abcdefGHIJKL1234567",
    "npm_abcdefGHIJKL1234567890", "AIzaSyA1234567890abcdefghijklmnopqrstuv", "pypi-AgEIcHlwaS5vcmcabcdef",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcdefghijklmnop", "https://ada:hunter22@example.org",
    "redis://:hunter22@example.org",
    "https://0123456789abcdef0123@example.org/a.git",
    "Authorization: Bearer abcdef.123456",
    "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\n-----END RSA PRIVATE KEY-----",
)  # fmt: skip
HARMLESS = (
    "Unexpected token: something", "npm-check-updates-16.14.12.tgz", "sk-learn-and-others", "a key of 1 character",
    "password: str = field()", "/run/ssh-abc/agent.1", "Ada Lovelace 1815", "development", "10000000 tokens",
    "2b7e151628aed2a6abf7158809cf4f3c", "hf.co/models/abc", "-----BEGIN CERTIFICATE-----",
)  # fmt: skip


@pytest.mark.parametrize("token", TOKENS)
def test_the_shapes_of_tokens_are_known(token: str) -> None:
    printed = Mask({}).printed(f"before {token} after")
    assert "[redacted]" in printed
    assert printed.startswith("before ")
    assert printed.endswith(" after")
    assert token not in printed


@pytest.mark.parametrize("text", HARMLESS)
def test_other_words_stay(text: str) -> None:
    assert Mask(ENVIRON).printed(text) == text


@pytest.mark.parametrize(
    "name", ["GH_PAT", "MYSQL_PWD", "SMTP_PASS", "ssh_passphrase", "STRIPE_KEY", "NPM_AUTH", "PASS"]
)
def test_what_commands_do_not_get_is_not_shown_either(name: str) -> None:
    environ = {name: "x7Jq very 1"}
    assert child_environ(environ) == child_environ({}) or name == "NPM_AUTH"
    for shown in (redact("a x7Jq very 1 b", environ), Mask(environ).known("a x7Jq very 1 b")):
        assert shown == f"a {MASK} b"


@pytest.mark.parametrize("name", ["PWD", "OLDPWD", "GIT_ASKPASS", "BYPASS", "PATH", "XDG_COMPAT"])
def test_other_variables_are_shown(name: str) -> None:
    environ = {name: "x7Jq very 1"}
    assert child_environ(environ)[name] == Mask(environ).known("x7Jq very 1") == "x7Jq very 1"


@pytest.fixture
def rig(tmp_path: Path) -> ExecutorRig:
    (tmp_path / "w").mkdir()
    text = f"example = 'AKIAIOSFODNN7EXAMPLE'\nmine = '{ENVIRON['DATABASE_PASSWORD']}'\n"
    (tmp_path / "w" / "a.py").write_text(text)
    return ExecutorRig(
        tmp_path / "w",
        approvals=Approvals(ApprovalMode.ALL),
        tables={"bash": {"max_output_bytes": 200}},
        output_dir=tmp_path / "out",
        environ=ENVIRON,
    )


async def test_what_a_command_prints_is_masked_wherever_it_goes(rig: ExecutorRig, tmp_path: Path) -> None:
    secret = ENVIRON["MISTRAL_API_KEY"]
    program = f"import sys; [print('{secret}', 'ghp_16C7e42F292c6912E7710c838347Ae178B4a', n) for n in range(4000)]"
    line = f'{sys.executable} -c "{program}"'
    done = await rig.executor.run_all([call("c", "bash", command=line)], rig.record)
    kept = await to_thread.run_sync(lambda: "".join(file.read_text() for file in (tmp_path / "out").iterdir()))
    said = "".join(
        f"{event.arguments} {event.summary}" if isinstance(event, ToolCallEvent) else getattr(event, "text", "") + getattr(event, "content", "")
        for event in rig.sink.events
        if isinstance(event, (ToolCallEvent, ToolStreamEvent, ToolResultEvent))
    )  # fmt: skip
    for text in (done.messages[0].content, kept, said):
        assert "[redacted]" in text
        assert secret not in text
        assert "ghp_16C7" not in text
    assert kept.count("[redacted] [redacted]") == 4000


async def test_a_file_is_shown_as_it_is_but_for_the_users_own_secrets(rig: ExecutorRig) -> None:
    done = await rig.executor.run_all([call("c", "read_file", path="a.py")], rig.record)
    assert "AKIAIOSFODNN7EXAMPLE" in done.messages[0].content
    assert "mine = '[redacted]'" in done.messages[0].content


KEY = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEpAIBAAKCAQEA1234\n" * 150 + "-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize("secret", ["x7Jq-very-secret-1", "corr3ct horse", TOKENS[1], TOKENS[10], TOKENS[13], KEY])
@pytest.mark.parametrize("gap", ["\n", " ", "\n-- "], ids=["lines", "one line", "words"])
def test_no_secret_is_cut_in_two(secret: str, gap: str) -> None:
    masked = Mask(ENVIRON).printed
    text = (secret + gap) * (6 * LONGEST // len(secret))
    whole = masked(text)
    cuts: set[int] = set()
    for length in range(4 * LONGEST, 4 * LONGEST + 40):
        cut = safe_cut(text[:length], masked)
        assert 0 < cut < length
        cuts.add(cut)
    for cut in cuts:
        assert masked(text[:cut]) + masked(text[cut:]) == whole


@pytest.mark.parametrize("secret", ["x7Jq-very-secret-1", TOKENS[1], KEY], ids=["value", "token", "key of many lines"])
@pytest.mark.parametrize("gap", ["\\n", " "], ids=["lines", "one line"])
async def test_what_is_kept_and_what_is_left_of_it_hold_no_part_of_a_secret(
    tmp_path: Path, secret: str, gap: str
) -> None:
    mask = Mask(ENVIRON)
    limit = OutputLimit(shown=20_000, keep_in=tmp_path, masked=mask.printed)
    script = f"import sys; [sys.stdout.write({secret!r} + '{gap}') for _ in range({1_500_000 // len(secret)})]"

    result = await run_command(
        [sys.executable, "-c", script], cwd=tmp_path, environ={"PATH": os.environ["PATH"]}, limit=limit
    )

    kept = await to_thread.run_sync(result.output_files[0].read_text)
    assert set(kept.split()) == {MASK}
    assert kept.count(MASK) == 1_500_000 // len(secret)
    assert result.stdout_dropped > 0
    shown = result.stdout.replace(f"[... {result.stdout_dropped} bytes left out ...]", "").split()
    assert all(word in MASK for word in shown)


@pytest.mark.timeout(20)
@pytest.mark.parametrize("word", ["sk-", "eyJ-", "SG.", "hf_1-", "-----BEGIN PRIVATE KEY-----", "bearer ", "x"])
def test_what_begins_like_a_secret_again_and_again_takes_no_longer(word: str) -> None:
    text = word * (1_000_000 // len(word))
    assert len(Mask(ENVIRON).printed(text)) > 0
    assert safe_cut(text, Mask(ENVIRON).printed) > 0


@pytest.mark.parametrize("pieces", [1, 7, 200], ids=lambda count: f"{count} pieces")
async def test_what_is_shown_live_holds_no_part_of_a_secret(pieces: int) -> None:
    mask = Mask(ENVIRON)
    text = ("some words\n" + KEY + "\n") * 120
    size = len(text) // pieces + 1
    capture = Capture("stdout", OutputLimit(masked=mask.printed))
    shown: list[str] = []
    for start in range(0, len(text), size):
        capture.feed(text[start : start + size].encode())
        shown.append(mask.printed(str(capture.take_live(final=False))))
    shown.append(mask.printed(str(capture.take_live(final=True))))
    await capture.finish()

    assert MASK in "".join(shown)
    assert "MIIE" not in "".join(shown)
    assert sum(map(len, shown)) < (pieces + 1) * 10_000


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("context_tokens=12345", "context_tokens=12345"),
        ("max_tokens: 4096", "max_tokens: 4096"),
        ("API_TOKEN=12345", "API_TOKEN=[redacted]"),
        ("tokens_secret=abcde", "tokens_secret=[redacted]"),
    ],
)
def test_a_count_of_tokens_is_no_token(text: str, shown: str) -> None:
    assert redact(text, {}) == shown


MANY_LINES = "first line of it\n  second line of it\nlast line of it"


@pytest.mark.parametrize("secret", ["x7Jq-very-secret-1", "corr3ct horse", *TOKENS, KEY])
@pytest.mark.parametrize("size", [3, 7, 40])
def test_no_secret_comes_through_whole_in_pieces(secret: str, size: int) -> None:
    text, part = f"before {secret} after\n", secret if secret.startswith("-----") else secret.rpartition(" ")[2]
    for masked in (Mask(ENVIRON).printed, partial(redact, environ=ENVIRON)):
        piece_mask = PieceMask(masked)
        shown = "".join(piece_mask(text[start : start + size]) for start in range(0, len(text), size))
        assert part not in shown
        assert shown.startswith("before ")
        assert shown.endswith(" after\n")
        assert shown.count("MIIE") <= 1


def test_what_is_no_secret_comes_through_unchanged_in_pieces() -> None:
    text = "\n".join((*HARMLESS, "token: ", "a password is asked for: ", "-----BEGIN CERTIFICATE-----", "MIIE")) * 40
    piece_mask = PieceMask(Mask(ENVIRON).printed)
    assert "".join(piece_mask(text[start : start + 9]) for start in range(0, len(text), 9)) == text


def test_streams_are_masked_each_by_itself() -> None:
    piece_mask = PieceMask(Mask(ENVIRON).printed)
    pieces = [("Bearer ", "out"), ("words\n", "err"), ("abcdefgh1234", "out")]
    assert [piece_mask(*piece) for piece in pieces] == ["Bearer ", "words\n", MASK]


def test_lines_of_a_secret_are_secrets_but_not_those_that_other_keys_begin_with() -> None:
    environ = {"DEPLOY_SECRET": MANY_LINES, "DEPLOY_KEY": f"{KEY}\n"}
    mask = Mask(environ)
    for masked in (mask.printed, mask.known, partial(redact, environ=environ)):
        assert masked(MANY_LINES) == MASK
        assert masked("+ second line of it\n") == f"+ {MASK}\n"
        assert masked("MIIEpAIBAAKCAQEA1234\n") == f"{MASK}\n"
    assert mask.printed(TOKENS[-1]) == MASK


def test_lines_of_a_function_that_bash_exports_are_no_secrets() -> None:
    environ = {"BASH_FUNC_load_keys%%": "() {  return $((1 + 1))\n echo done with it\n}"}
    assert redact("echo done with it", environ) == Mask(environ).known("echo done with it") == "echo done with it"


def test_of_two_secrets_of_which_one_begins_like_the_other_nothing_is_left() -> None:
    environ = {"A_TOKEN": "abcdefgh", "B_TOKEN": "abcdefgh-and-more"}
    assert redact("it is abcdefgh-and-more.", environ) == f"it is {MASK}."
