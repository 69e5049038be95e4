"""Every failure of a provider or a connection has its class, and no message contains what it must not."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from types import ModuleType

import httpx2
import pytest

from vibe.core.config.models import ProviderConfig
from vibe.core.llm.error_table import STATUS_ERRORS, WIRE_ERRORS, ErrorMapper, parse_retry_after, wait_in_words
from vibe.core.llm.errors import (
    ContextTooLongError,
    ModelAccessError,
    ModelCreditError,
    ModelError,
    ModelKeyError,
    ModelOverloadedError,
    ModelProtocolError,
    ModelRefusalError,
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


BY_BASE = {
    **dict.fromkeys(("ReadError", "WriteError", "CloseError"), "broke the connection"),
    "RequestError": "could not be asked",
    "PoolTimeout": "timed out",
    "ProtocolError": "could not be talked to",
    "StreamClosed": "broke the stream",
}
"""Errors that are recognised by their base class."""
NEVER_RAISED = {
    # Redirects are not followed, no status is raised, no body is read twice, and its cookies and readers are unused.
    *("TooManyRedirects", "HTTPStatusError", "StreamConsumed", "ResponseNotRead", "RequestNotRead", "CookieConflict"),
    "SSEError",
}


def test_every_exception_of_the_http_client_that_a_backend_can_meet_is_in_the_table() -> None:
    unmapped = {kind.__name__ for kind in exceptions_of(httpx2)} - set(WIRE_ERRORS) - NEVER_RAISED
    assert unmapped == BY_BASE.keys()


@pytest.mark.parametrize("name", sorted(BY_BASE))
def test_an_exception_without_words_of_its_own_has_those_of_its_base(name: str) -> None:
    words = () if name == "StreamClosed" else ("boom",)
    mapped = MAPPER.from_wire(getattr(httpx2, name)(*words))
    assert type(mapped) is ModelTransportError
    assert BY_BASE[name] in str(mapped)


@pytest.mark.parametrize("name", sorted(WIRE_ERRORS))
def test_a_wire_error_becomes_its_class(name: str) -> None:
    kind = type(name, (Exception,), {})
    mapped = MAPPER.from_wire(kind("boom"))
    assert type(mapped) is WIRE_ERRORS[name][0]
    assert "'acme'" in str(mapped)
    assert "secret" not in str(mapped)


def test_a_subclass_nobody_listed_is_mapped_by_its_base() -> None:
    kind = type("NewReadError", (httpx2.ReadError,), {})
    assert type(MAPPER.from_wire(kind("x"))) is ModelTransportError


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        *STATUS_ERRORS.items(),
        *((status, ModelOverloadedError) for status in (500, 502, 503, 504, 529)),
        *((status, ModelRequestError) for status in (400, 404, 422)),
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
    assert all(MAPPER.from_response(status, "", {}).retryable for status in (429, 500, 502, 503, 504, 529))
    assert not any(MAPPER.from_response(status, "", {}).retryable for status in (400, 401, 402, 403, 404, 413, 422))


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (429, '{"error": {"code": "insufficient_quota", "message": "no"}}', ModelCreditError),
        (429, "You exceeded your current quota, please check your plan", ModelCreditError),
        (429, '{"message": "Your credit balance is too low"}', ModelCreditError),
        (429, '{"message": "Requests rate limit exceeded"}', ModelOverloadedError),
        (400, '{"error": {"message": "Your credit balance is too low to access the API"}}', ModelCreditError),
        (400, '{"error": {"code": "context_length_exceeded", "message": "too long"}}', ContextTooLongError),
        (400, '{"message": "Prompt contains 4 tokens, too large for model with 3 maximum"}', ContextTooLongError),
        (400, '{"error": {"message": "the request exceeds the available context size"}}', ContextTooLongError),
        (400, '{"message": "messages must not be empty"}', ModelRequestError),
        (500, '{"error": "model requires more system memory (9 GiB) than is available (4 GiB)"}', ModelRequestError),
        (500, '{"error": "llama runner process has terminated: error loading model"}', ModelRequestError),
        (400, "Your request exceeded the maximum allowed number of input tokens", ContextTooLongError),
        (400, "tokens_limit_reached: Request body too large for gpt-4o. Max size: 8000 tokens.", ContextTooLongError),
        (503, "the number of requests exceeded the limit", ModelOverloadedError),
        (400, '{"error": {"code": "content_filter", "message": "The response was filtered"}}', ModelRefusalError),
        (400, '{"error": {"message": "the prompt triggers our content management policy"}}', ModelRefusalError),
        (400, '{"error": {"code": "data_inspection_failed", "message": "inappropriate"}}', ModelRefusalError),
        (403, '{"error": {"message": "Your model requires moderation and your input was flagged"}}', ModelRefusalError),
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
        (400, "Incorrect API key provided", False),
        (402, "pay", True),
        (403, "no", False),
        (403, "your account balance is insufficient", True),
        (500, "insufficient balance (1008)", True),
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
        ("3s", 3.0),
        ("1m30s", 90.0),
        ("1772366430", 30.0),
        ("2026-03-01T12:00:30Z", 30.0),
        ("2026-03-01", 0.0),
        ("2026-13-01T12:00:30Z", None),
        ("1772366430500", 30.0),
        ("99999999999", 99999999999.0),
        ("9" * 5000, None),
        ("2, 3", None),
        ("nan", None),
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
    assert "secret" not in str(MAPPER.from_wire(httpx2.ConnectError("refused")))
    assert "https://llm.example:8443" in str(MAPPER.from_wire(httpx2.ConnectError("refused")))


def test_a_refused_header_is_not_quoted() -> None:
    text = str(MAPPER.from_wire(httpx2.LocalProtocolError("Illegal header value b'Bearer sk-other'")))
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


def test_an_untrusted_certificate_is_not_tried_again_and_what_helps_is_said() -> None:
    mapped = MAPPER.from_wire(httpx2.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] self-signed certificate"))
    assert isinstance(mapped, ModelTransportError)
    assert (mapped.retryable, mapped.unreachable, mapped.halts) == (False, False, True)
    assert "SSL_CERT_FILE" in str(mapped)
    assert MAPPER.from_wire(httpx2.ConnectError("refused")).retryable


def test_a_proxy_that_wants_a_user_is_told_at_once_with_what_to_write() -> None:
    mapper = ErrorMapper(provider=ProviderConfig(name="p", api_base="https://models.example/v1"))
    asked = httpx2.Request("POST", "https://models.example/v1", extensions={"proxy": "https_proxy"})

    in_tunnel = mapper.from_wire(httpx2.ProxyError("407 Proxy Authentication Required", request=asked))
    for mapped in (in_tunnel, mapper.from_response(407, "<html>no</html>", {})):
        assert (mapped.retryable, mapped.unreachable) == (False, False)
        assert str(mapped).endswith(
            "name your user and password in the proxy's variable: http://USER:PASSWORD@HOST:PORT"
        )
    assert "cannot be reached at https://models.example through the proxy in https_proxy: 407" in str(in_tunnel)
    assert mapper.from_wire(httpx2.ProxyError("502 Bad Gateway")).retryable
    gone = httpx2.RemoteProtocolError("gone", request=asked)
    assert "answer through the proxy in https_proxy: gone" in str(mapper.from_wire(gone))
    assert "proxy" not in str(mapper.from_wire(httpx2.RemoteProtocolError("gone")))


def test_an_answer_that_is_none_names_the_server() -> None:
    error = MAPPER.protocol("said nothing")
    assert isinstance(error, ModelProtocolError)
    assert "'acme' said nothing" in str(error)


@pytest.mark.parametrize("key", ["x", "test", "local"])
def test_a_key_that_is_no_secret_leaves_a_message_whole(key: str) -> None:
    mapper = ErrorMapper(provider=MAPPER.provider, api_key=key)
    assert "the local test of x failed" in str(mapper.from_response(400, "the local test of x failed", {}))


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens."),
        (400, "Input tokens exceed the configured limit of 272000 tokens."),
        (400, "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length"),
        (400, "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length"),
        (400, "prompt is too long: 208310 tokens > 200000 maximum"),
        (400, "Please reduce the length of the messages or completion. code: context_length_exceeded"),
        (400, "This endpoint's maximum context length is 32768 tokens. However, you requested about 50000 tokens"),
        (400, '{"error":{"code":"1261","message":"Prompt exceeds max length"}}'),
        (
            422,
            "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens",
        ),
        (422, "Input validation error: `inputs` must have less than 4095 tokens. Given: 5000"),
        (400, "The decoder prompt (length 40000) is longer than the maximum model length of 32768."),
        (400, "the request exceeds the available context size (8192 tokens), try increasing it"),
        (500, "Context size has been exceeded."),
        (400, "The number of tokens to keep from the initial prompt is greater than the context length"),
        (400, "prompt too long; exceeded max context length by 5 tokens"),
        (400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens."),
        (400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."),
        (400, "Invalid request: Your request exceeded model token limit: 8192"),
        (400, "Range of input length should be [1, 30720]"),
        (400, "The prompt (tokens: 9000) exceeds the maximum allowed (tokens: 8192)"),
        (400, "Please reduce the length of the messages or completion. Current length is 9000 while limit is 8192"),
        (400, "Input length 40000 exceeds the maximum allowed length of 32768"),
        (400, "The total number of tokens in the request exceeds the model limit"),
        (400, "litellm.ContextWindowExceededError: XaiException"),
        (400, "输入长度超过模型最大长度限制"),
        (400, "input exceeds the model's maximum sequence length of 4096"),
        (400, "length of prompt_tokens (70000) must be less than max_seq_len (65536)."),
        (400, "Total tokens of image and text exceed max message tokens."),
        (400, "the number of input tokens 5000 cannot exceed the total tokens limit 4096 for this model"),
        (400, "input length exceeds maximum allowed token size"),
        (400, "Conversation history is too long for this model"),
        (400, "tokens in request more than max tokens allowed"),
        (503, "Input token length too long"),
        (400, "输入文本过长"),
        (413, "Request too large for model `x` on tokens per minute (TPM): Limit 6000, Requested 8000"),
        (429, "Request too large for gpt-4 on tokens per min (TPM): Limit 1, Requested 2. The input must be reduced"),
    ],
)
def test_every_providers_words_for_a_prompt_that_is_too_long_are_known(status: int, message: str) -> None:
    assert type(MAPPER.from_response(status, message, {})) is ContextTooLongError
    assert type(MAPPER.from_chunk({"message": message, "code": status})) is ContextTooLongError


@pytest.mark.parametrize(
    ("status", "message", "expected"),
    [
        (429, "Insufficient balance or no resource package. Please recharge.", ModelCreditError),
        (429, "余额不足或无可用资源包,请充值。", ModelCreditError),
        (402, "Insufficient Balance", ModelCreditError),
        (400, "You have reached your specified API usage limits. You will regain access on 2026-12-01", ModelCreditError),
        (429, "Rate limit reached on tokens per day. Please try again in 7m12.5s. See /settings/billing", ModelOverloadedError),
        (429, "Service tier capacity exceeded for this model.", ModelOverloadedError),
        (429, '{"error":{"message":"no","details":{"error_code":"enforced_spend_limit_reached"}}}', ModelCreditError),
        (429, "Your team has either used all available credits or reached its spending limit", ModelCreditError),
        (429, "You exceeded your current quota, see billing. Please retry in 36.9s.", ModelOverloadedError),
        (400, '[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key."}}]', ModelKeyError),
        (400, '{"error":"Incorrect API key provided: xa***"}', ModelKeyError),
        (400, "max_tokens: the request exceeds the model's max_tokens of 8192", ModelRequestError),
        (498, "Flex tier capacity exceeded", ModelOverloadedError),
        (503, '{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}', ModelOverloadedError),
        (400, '{"error":{"message":"Failed to call a function","code":"tool_use_failed"}}', ModelProtocolError),
        (400, "max_tokens: 64000 > 32000, which is the maximum allowed number of output tokens", ModelRequestError),
        (404, 'model "x" not found, try pulling it first', ModelRequestError),
        (400, "Model Not Exist", ModelRequestError),
        (400, "`max_tokens` must be less than or equal to 8192, less than the `context_window`", ModelRequestError),
        (400, '{"error":{"message":"no tool of that name","code":"output_parse_failed"}}', ModelProtocolError),
        (500, "error parsing tool call: raw='{', err=unexpected end of JSON input", ModelProtocolError),
        (500, '{"type":"error","error":{"type":"api_error","message":"insufficient balance (1008)"}}', ModelCreditError),
        (400, '{"error":{"message":"Insufficient Balance","code":"invalid_request_error"}}', ModelCreditError),
        (403, "Sorry, your account balance is insufficient", ModelCreditError),
        (403, "Key limit exceeded (total limit)", ModelCreditError),
        (400, "Arrearage: Access denied, please make sure your account is in good standing.", ModelCreditError),
        (429, "The free tier of the model has been exhausted.", ModelCreditError),
        (503, "Sorry, see the billing page of the proxy", ModelOverloadedError),
        (400, "API key expired. Please renew the API key.", ModelKeyError),
        (400, "invalid x-api-key", ModelKeyError),
    ],
)  # fmt: skip
def test_other_words_of_providers_are_known(status: int, message: str, expected: type[ModelError]) -> None:
    assert type(MAPPER.from_response(status, message, {})) is expected


@pytest.mark.parametrize(
    ("error", "expected", "status"),
    [
        ({"message": "x", "code": "1113"}, ModelCreditError, 402),
        ({"message": "x", "code": "1302"}, ModelOverloadedError, 429),
        ({"message": "x", "code": "1211"}, ModelRequestError, 404),
        ({"message": "x", "http_status_code": 422}, ModelRequestError, 422),
        ({"message": "x", "type": "unavailable_error"}, ModelOverloadedError, 503),
        ({"message": "x", "type": "exceeded_current_quota_error"}, ModelCreditError, 402),
        ({"message": "x", "type": "overloaded"}, ModelOverloadedError, 429),
    ],
)
def test_codes_of_providers_stand_for_a_status(error: object, expected: type[ModelError], status: int) -> None:
    mapped = MAPPER.from_chunk(error)
    assert (type(mapped), mapped.status) == (expected, status)


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("Please try again in 7.5s. Visit", 7.5),
        ("try again in 20ms", 0.02),
        ("try again in 1m2s", 62.0),
        ("try again in 2h5m", 7500.0),
        ("Please retry in 36.920432s.", 36.920432),
        ("Please retry after 20 seconds.", 20.0),
        ("try again in 10 minutes", 600.0),
        ("retry in 1 hour", 3600.0),
        ('{"error": {"details": [{"retryDelay": "34.07s"}], "message": "wait"}}', 34.07),
        ("try again in a while", None),
        ("retry in 5 attempts", None),
        ("", None),
    ],
)
def test_a_wait_told_in_words_is_understood(words: str, seconds: float | None) -> None:
    assert wait_in_words(words) == seconds
    assert MAPPER.from_response(429, words, {}).retry_after == seconds
    assert MAPPER.from_chunk({"message": words, "code": 429}).retry_after == seconds


def test_a_wait_told_in_milliseconds_is_understood() -> None:
    assert MAPPER.from_response(429, "", {"retry-after-ms": "1500", "retry-after": "2"}).retry_after == 1.5


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, 360.0),
        ({"x-ratelimit-reset": "20"}, 20.0),
        ({"ratelimitbysize-remaining": "0", "ratelimitbysize-reset": "31"}, 31.0),
        ({"x-ratelimit-reset-tokens": "120ms", "x-ratelimit-remaining-tokens": "0"}, 0.12),
        (
            {"x-ratelimit-reset-requests": "2s", "x-ratelimit-reset-tokens": "9m", "x-ratelimit-remaining-tokens": "7"},
            2.0,
        ),
        ({"x-ratelimit-reset-requests": "0s", "retry-after": "3"}, 3.0),
        ({"x-ratelimit-reset-requests": "soon"}, None),
        ({"x-ratelimit-reset-requests": "9m", "x-ratelimit-remaining-requests": "4"}, None),
    ],
)
def test_the_reset_of_a_limit_that_is_used_up_is_waited_for(headers: dict[str, str], seconds: float | None) -> None:
    mapped = MAPPER.from_response(429, "", headers)

    assert mapped.retry_after == seconds
    assert MAPPER.from_response(503, "", headers).retry_after == (3.0 if "retry-after" in headers else None)


def test_a_reset_does_not_make_a_spent_credit_a_rate() -> None:
    mapped = MAPPER.from_response(429, "quota exceeded, see billing", {"x-ratelimit-reset-requests": "7s"})

    assert (type(mapped), mapped.retryable) == (ModelCreditError, False)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ('[{"error": {"message": "list of one"}}]', "list of one"),
        ('{"message": {"detail": [{"loc": ["body", "x"], "msg": "Field required"}]}}', ": x: Field required;"),
        ('{"detail": [{"loc": ["body", "tools", 0, "type"], "msg": "bad"}]}', ": tools.0.type: bad;"),
        ("<html><head><title>502 Bad &amp; Gone</title></head><body><p>nginx</p></body></html>", ": 502 Bad & Gone;"),
        ("<!DOCTYPE html><style>a{b:c}</style><h1>Sorry,\n you have been blocked</h1>", ": Sorry, you have been blocked;"),
        ('{"error": {"message": "Provider returned error", "metadata": {"raw": "{\\"error\\":\\"cold\\"}"}}}', "error: cold;"),
    ],
)  # fmt: skip
def test_the_words_of_an_error_are_found(body: str, words: str) -> None:
    assert words in str(MAPPER.from_response(422, body, {}))
