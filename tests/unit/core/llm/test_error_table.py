"""Every failure of a provider or a wire has its class, and no message carries what it must not."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from types import ModuleType

import httpx
import httpx2
import pytest

from vibe.core.config.models import ProviderConfig
from vibe.core.llm.error_table import STATUS_ERRORS, WIRE_ERRORS, ErrorMapper, parse_retry_after
from vibe.core.llm.errors import (
    ContextTooLongError,
    ModelAccessError,
    ModelError,
    ModelOverloadedError,
    ModelProtocolError,
    ModelRequestError,
    ModelTransportError,
)

PROVIDER = ProviderConfig(name="acme", api_base="https://user:secret@llm.example:8443/v1", api_key_env_var="ACME_KEY")
MAPPER = ErrorMapper(provider=PROVIDER, api_key="sk-very-secret")


def exceptions_of(module: ModuleType) -> Iterator[type[Exception]]:
    for name in sorted(vars(module)):
        value = getattr(module, name)
        if isinstance(value, type) and issubclass(value, Exception):
            yield value


@pytest.mark.parametrize("module", [httpx, httpx2], ids=["httpx", "httpx2"])
def test_every_exception_of_both_http_clients_is_in_the_table(module: ModuleType) -> None:
    # The backends never use httpx2's own reader of server-sent events.
    unmapped = {kind.__name__ for kind in exceptions_of(module)} - set(WIRE_ERRORS) - {"SSEError"}
    assert unmapped == set()


@pytest.mark.parametrize("name", sorted(WIRE_ERRORS))
def test_a_wire_error_becomes_its_class(name: str) -> None:
    kind = type(name, (Exception,), {})
    mapped = MAPPER.from_wire(kind("boom"))
    assert type(mapped) is WIRE_ERRORS[name][0]
    assert "'acme'" in str(mapped)
    assert "secret" not in str(mapped)


def test_a_subclass_nobody_listed_is_mapped_by_its_base() -> None:
    kind = type("NewReadError", (httpx.ReadError,), {})
    assert type(MAPPER.from_wire(kind("x"))) is ModelTransportError


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        *STATUS_ERRORS.items(),
        (302, ModelRequestError),
        (418, ModelRequestError),
        (499, ModelRequestError),
        (520, ModelOverloadedError),
        (599, ModelOverloadedError),
    ],
)
def test_a_status_becomes_its_class(status: int, expected: type[ModelError]) -> None:
    mapped = MAPPER.from_response(status, "", {})
    assert type(mapped) is expected
    assert mapped.status == status
    assert f"(HTTP {status})" in str(mapped)


def test_what_the_docstring_promises_is_retryable_and_nothing_else() -> None:
    retryable = {status for status, kind in STATUS_ERRORS.items() if kind.retryable}
    assert {429, 500, 502, 503, 504, 529} <= retryable
    assert not retryable & {400, 401, 402, 403, 404, 413, 422}


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (429, '{"error": {"code": "insufficient_quota", "message": "no"}}', ModelAccessError),
        (429, "You exceeded your current quota, please check your plan", ModelAccessError),
        (429, '{"message": "Your credit balance is too low"}', ModelAccessError),
        (429, '{"message": "Requests rate limit exceeded"}', ModelOverloadedError),
        (400, '{"error": {"message": "Your credit balance is too low to access the API"}}', ModelAccessError),
        (400, '{"error": {"code": "context_length_exceeded", "message": "too long"}}', ContextTooLongError),
        (400, '{"message": "Prompt contains 4 tokens, too large for model with 3 maximum"}', ContextTooLongError),
        (400, '{"error": {"message": "the request exceeds the available context size"}}', ContextTooLongError),
        (400, '{"message": "messages must not be empty"}', ModelRequestError),
    ],
)
def test_the_wording_refines_the_status(status: int, body: str, expected: type[ModelError]) -> None:
    assert type(MAPPER.from_response(status, body, {})) is expected


@pytest.mark.parametrize(
    ("status", "body", "is_spent"),
    [
        (400, '{"error": {"message": "Your credit balance is too low"}}', True),
        (400, "no such model", False),
        (401, "bad key", False),
        (402, "pay", True),
        (403, "no", False),
        (429, "insufficient_quota", True),
        (429, "slow down", True),
        (529, "busy", False),
    ],
)
def test_an_account_that_is_spent_is_told_from_a_key_that_is_wrong(status: int, body: str, is_spent: bool) -> None:  # noqa: FBT001  a table
    assert MAPPER.from_response(status, body, {}).is_spent is is_spent


def test_a_provider_that_says_how_long_to_wait_is_waited_for() -> None:
    mapped = MAPPER.from_response(429, "quota exceeded, see billing", {"retry-after": "7"})
    assert isinstance(mapped, ModelOverloadedError)
    assert mapped.retry_after == 7.0


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("3", 3.0),
        ("0.5", 0.5),
        ("Sun, 01 Mar 2026 12:00:30 GMT", 30.0),
        ("Sun, 01 Mar 2026 11:00:00 GMT", 0.0),
        ("soon", None),
        ("-4", None),
        ("", None),
        (None, None),
    ],
)
def test_retry_after_is_seconds_or_a_date(header: str | None, seconds: float | None) -> None:
    assert parse_retry_after(header, now=datetime(2026, 3, 1, 12, tzinfo=UTC)) == seconds


def test_the_key_the_url_secret_and_control_characters_stay_out() -> None:
    body = '{"error": {"message": "bad key sk-very-secret\\u001b[31m\\nsee\\u0007 docs"}}'
    text = str(MAPPER.from_response(401, body, {}))
    assert "sk-very" not in text
    assert "bad key *** [31m see docs" in text
    assert text.isprintable()
    assert "ACME_KEY" in text
    assert "secret" not in str(MAPPER.from_wire(httpx.ConnectError("refused")))
    assert "https://llm.example:8443" in str(MAPPER.from_wire(httpx.ConnectError("refused")))


def test_a_refused_header_is_not_quoted() -> None:
    text = str(MAPPER.from_wire(httpx.LocalProtocolError("Illegal header value b'Bearer sk-other'")))
    assert "sk-other" not in text


def test_a_long_body_is_quoted_shortly() -> None:
    text = str(MAPPER.from_response(500, "x" * 10_000, {}))
    assert len(text) < 450
    assert "…" in text


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"error": {"error": {"error": {"error": 1}}}}', "\ud800", "<html>"])
def test_no_body_is_too_strange(body: str) -> None:
    assert isinstance(MAPPER.from_response(500, body, {}), ModelOverloadedError)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        ({"type": "overloaded_error", "message": "busy"}, ModelOverloadedError),
        ({"code": 429, "message": "slow down"}, ModelOverloadedError),
        ({"code": "rate_limit_exceeded"}, ModelOverloadedError),
        ({"type": "authentication_error"}, ModelAccessError),
        ({"code": 400, "message": "maximum context length is 10"}, ContextTooLongError),
        ("it broke", ModelOverloadedError),
        (None, ModelOverloadedError),
    ],
)
def test_an_error_inside_a_stream_is_mapped(error: object, expected: type[ModelError]) -> None:
    assert type(MAPPER.from_chunk(error)) is expected


def test_an_untrusted_certificate_is_not_tried_again() -> None:
    mapped = MAPPER.from_wire(httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate"))
    assert isinstance(mapped, ModelTransportError)
    assert not mapped.retryable
    assert MAPPER.from_wire(httpx.ConnectError("refused")).retryable


def test_an_answer_that_is_none_names_the_server() -> None:
    error = MAPPER.protocol("said nothing")
    assert isinstance(error, ModelProtocolError)
    assert "'acme' said nothing" in str(error)


@pytest.mark.parametrize("key", ["x", "test", "local"])
def test_a_key_that_is_no_secret_leaves_a_message_whole(key: str) -> None:
    mapper = ErrorMapper(provider=MAPPER.provider, api_key=key)
    assert "the local test of x failed" in str(mapper.from_response(400, "the local test of x failed", {}))
