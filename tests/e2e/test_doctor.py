"""Findings of ``vibe doctor --online`` about the model's server.

Covers ``vibe.app.inspect``.
"""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from tests.e2e.conftest import VIBE, VibeCommand
from tests.fakes.model_server import ModelServer, Reply, ServedCall

KEY = "sk-of-nobody-0123456789"
SETTINGS = """
active_model = "m"
[[providers]]
name = "p"
backend = "generic"
api_base = "{api_base}"
api_key_env_var = "THE_KEY"
[[models]]
name = "m"
provider = "p"
"""


def examined(vibe: VibeCommand, api_base: str, code: int) -> dict[str, tuple[str, str]]:
    """Return state and detail by subject, and check that the key is in neither."""
    vibe.environ["THE_KEY"] = KEY
    vibe.configure(SETTINGS.format(api_base=api_base))
    ended = vibe("doctor", "--online", "--output", "json")
    assert ended.code == code, ended.out
    assert KEY not in ended.out + ended.err
    return {row["subject"]: (row["state"], row["detail"]) for row in ended.document["findings"]}


def test_a_model_that_calls_tools_is_fine(vibe: VibeCommand) -> None:
    with ModelServer() as server:
        server.enqueue(Reply(tool_calls=(ServedCall(name="ready", arguments='{"how": "so"}'),)))
        found = examined(vibe, server.api_base, 0)

    assert [found[subject][0] for subject in ("network", "clock", "answer")] == ["ok", "ok", "ok"]
    assert found["answer"][1].startswith("m answered after ")
    (request,) = server.requests
    assert [tool["function"]["name"] for tool in request.body["tools"]] == ["ready"]


def test_a_model_that_answers_in_words_is_warned_of(vibe: VibeCommand) -> None:
    with ModelServer() as server:
        server.enqueue(Reply(text="ready"))
        found = examined(vibe, server.api_base, 0)

    assert found["answer"][0] == "warning"
    assert "calls no tools" in found["answer"][1]


def test_a_refused_key_and_a_server_that_is_not_there_fail(vibe: VibeCommand) -> None:
    with ModelServer() as server:
        server.enqueue(Reply(status=401, body='{"error": {"message": "bad key"}}'))
        found = examined(vibe, server.api_base, 3)
    assert found["answer"][0] == "failed"
    assert "refused the key" in found["answer"][1]

    found = examined(vibe, server.api_base, 3)
    assert found["network"][0] == "failed"
    assert "answer" not in found


class _LongAgo(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self.send_response(204)
        self.end_headers()

    def do_POST(self) -> None:
        self.send_error(404)

    def date_time_string(self, timestamp: float | None = None) -> str:  # noqa: ARG002  the library's interface
        return "Thu, 01 Jan 2026 00:00:00 GMT"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the library's interface
        """Print nothing."""


@contextmanager
def server_of_long_ago() -> Generator[str]:
    with HTTPServer(("127.0.0.1", 0), _LongAgo) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def test_a_proxy_that_is_none_fails_and_the_rest_is_examined(
    vibe: VibeCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", "ftp://127.0.0.1:1")

    found = examined(vibe, "https://models.invalid/v1", 3)

    assert found["network"][0] == "failed"
    assert "the proxy in https_proxy can't be used" in found["network"][1]
    assert {"sandbox", "git", "bus"} <= found.keys()


def test_a_clock_that_goes_wrong_is_told(vibe: VibeCommand) -> None:
    with server_of_long_ago() as api_base:
        found = examined(vibe, api_base, 3)

    assert found["clock"][0] == "warning"
    assert "ahead of the server's" in found["clock"][1]
    assert found["answer"][0] == "failed"


@pytest.mark.parametrize(
    ("key", "more", "subject", "said"),
    [
        ("", "", "keys", "THE_KEY is not set: run `vibe setup`, set it, or choose another model"),
        ("two\u00a0words", "", "provider", "contains characters that no key has: set it again"),
        (KEY, 'extra_headers = { X-Team = "${TEAM}" }', "provider", "needs the environment variable TEAM"),
        (KEY, 'api_style = "odd"', "provider", "'odd' is not a style"),
    ],
)
def test_what_no_run_could_use_fails_without_a_call(
    vibe: VibeCommand, key: str, more: str, subject: str, said: str
) -> None:
    vibe.environ["THE_KEY"] = key
    vibe.configure(SETTINGS.format(api_base="http://127.0.0.1:9/v1").replace("[[models]]", f"{more}\n[[models]]"))
    ended = vibe("doctor", "--output", "json")
    failed = {row["subject"]: row["detail"] for row in ended.document["findings"] if row["state"] == "failed"}
    assert (ended.code, list(failed)) == (3, [subject])
    assert said in failed[subject]


def test_few_open_files_are_told_and_no_internal_error(vibe: VibeCommand) -> None:
    for most in range(22, 27):
        ended = vibe.run(["prlimit", f"--nofile={most}", "--", str(VIBE), "doctor"])
        assert "internal error" not in ended.err, most
        assert ended.code in {0, 3}, most


def test_what_a_tool_would_refuse_fails_with_its_line(vibe: VibeCommand) -> None:
    vibe.configure('[tools.bash]\ndenylist = ["git push*"]\nmax_output_bytes = 1\n')
    ended = vibe("doctor")
    assert ended.code == 3
    refused = [line for line in ended.out.splitlines() if line.startswith("FAIL config")]
    assert [line.partition("config.toml:")[2].partition(": ")[0] for line in refused] == ["2", "3"]
    assert "tools.bash.denylist[0]: 'git push*' would match nothing: give the first words" in refused[0]
    assert "tools.bash.max_output_bytes: input should be greater than or equal to 200" in refused[1]
