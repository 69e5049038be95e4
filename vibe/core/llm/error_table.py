"""ErrorMapper: maps failures of providers and connections to model errors, by tables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from html import unescape
from typing import Final, cast
from urllib.parse import urlsplit

from msgspec import Struct, json

from ipc.errors import INVALID_JSON
from vibe.core.config.models import ProviderConfig
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
    ModelTrustError,
)
from vibe.core.schemas import table_of, text_in, whole_number
from vibe.system.http import proxy_note, trust_advice

QUOTE_LIMIT: Final = 300
"""The most characters of a provider's own words that an error message quotes."""

STATUS_ERRORS: Final[Mapping[int, type[ModelError]]] = {
    **dict.fromkeys((401, 403), ModelAccessError),
    402: ModelCreditError,
    407: ModelTrustError,
    **dict.fromkeys((408, 409, 424, 425, 429, 498), ModelOverloadedError),
    413: ContextTooLongError,
}
"""The error of an HTTP status. Other statuses below 500 mean a bad request, the rest an overloaded provider."""

WIRE_ERRORS: Final[Mapping[str, tuple[type[ModelError], str]]] = {
    # Keyed by the name of an exception or one of its bases: httpx2 need not be imported for it.
    "ConnectTimeout": (ModelTransportError, "did not accept a connection in time"),
    "ReadTimeout": (ModelTransportError, "sent nothing for {timeout:g} s (timeout_seconds)"),
    "WriteTimeout": (ModelTransportError, "took nothing for {timeout:g} s (timeout_seconds)"),
    "TimeoutException": (ModelTransportError, "timed out"),
    "ConnectError": (ModelTransportError, "cannot be reached at {endpoint}"),
    "NetworkError": (ModelTransportError, "broke the connection{way}"),
    "ProxyError": (ModelTransportError, "cannot be reached at {endpoint}{way}"),
    "RemoteProtocolError": (ModelTransportError, "cut the connection in the middle of an answer{way}"),
    "LocalProtocolError": (ModelRequestError, "cannot be sent this request"),
    "UnsupportedProtocol": (ModelRequestError, "has an api_base that is neither http:// nor https://"),
    "TransportError": (ModelTransportError, "could not be talked to"),
    "DecodingError": (ModelProtocolError, "sent an answer that cannot be read"),
    "HTTPError": (ModelTransportError, "could not be asked"),
    "InvalidURL": (ModelRequestError, "has an api_base that is not a URL"),
    "StreamError": (ModelTransportError, "broke the stream"),
}

UNREACHABLE: Final = frozenset({"ConnectTimeout", "ConnectError", "ProxyError"})
"""The names of the exceptions that are raised before the server has answered at all."""

_TYPE_STATUSES: Final[Mapping[int, str]] = {
    # OpenAI and Anthropic; also Kimi, Cerebras, llama.cpp, text-generation-inference and vLLM where their names differ.
    # The numbers are z.ai's, and those after "base_resp." MiniMax's.
    400: "invalid_request_error context_length_exceeded exceed_context_size_error BadRequestError 1210 1214 1261 1301 "
    "base_resp.1026 base_resp.1027 base_resp.2013",
    401: "authentication_error invalid_api_key invalid_authentication_error 1000 1001 1002 1003 1004 "
    "base_resp.1004 base_resp.2049",
    402: "insufficient_quota billing_error exceeded_current_quota_error 1113 base_resp.1008 base_resp.2056",
    403: "permission_error",
    404: "not_found_error model_not_found NotFoundError 1211",
    413: "request_too_large",
    422: "validation",
    424: "generation",
    429: "rate_limit_error rate_limit_exceeded rate_limit_reached_error too_many_requests_error overloaded "
    "1302 1303 1305 1308 base_resp.1002 base_resp.1039",
    500: "server_error api_error internal_server_error incomplete_generation InternalServerError",
    501: "not_supported_error",
    503: "engine_overloaded_error unavailable_error",
    504: "timeout_error",
    529: "overloaded_error",
}
CHUNK_ERRORS: Final = {name: status for status, names in _TYPE_STATUSES.items() for name in names.split()}
"""The HTTP status that each error type stands for if it comes inside a stream that began with 200."""

ADVICE: Final[Mapping[type[ModelError], str]] = {
    ModelOverloadedError: "wait, or choose another model with --model or /model",
    ModelAccessError: "check {key} and the account's credit",
    ModelKeyError: "check {key}",
    ModelCreditError: "check {key} and the account's credit",
    ContextTooLongError: "shorten the conversation, or choose a model with a larger context",
    ModelRequestError: "check the model name and the settings of the provider",
    ModelRefusalError: "put it in other words, or choose another model with --model or /model",
    ModelTransportError: "check the network and api_base ({endpoint})",
    ModelTrustError: "{trust}",
    ModelProtocolError: "try again, or check api_base ({endpoint})",
}

SHORTEST_KEY = 8
"""Characters a key must have to be masked in messages.

A shorter one is a dummy for a local server and no secret; masking it would mangle every message."""

_EXHAUSTED = re.compile(
    r"insufficient[_ ](quota|(account )?(credit|balance|fund))|balance (is )?(insufficient|too low|not enough)"
    r"|(out of|run out of|no|requires more) credits?\b|credit balance|(exceeded your|over) (current )?quota|arrearage"
    r"|quota\b.{0,40}\b(exhausted|exceeded|used up)|(exhausted|used up)\b.{0,40}\b(quota|credits?)"
    r"|free ?tier\b.{0,40}\bexhausted|used all available credits|billing[_ ](details|hard|limit|not|error)"
    r"|(spend|spending|usage|key)[_ ](limit|threshold)[_ ]?((is )?reached|exceeded)|usage threshold"
    r"|(hit your|your specified) (\w+ )?usage limit|余额不足|欠费",
    re.IGNORECASE | re.DOTALL,
)
_WRONG_KEY = re.compile(
    r"api[_ ]key (not valid|provided|expired|is (missing|invalid|required))"
    r"|(invalid|incorrect|expired|missing) (x-)?api[-_ ]key",
    re.IGNORECASE,
)
"""The wording for an unknown key, with statuses such as 400."""
_REFUSED = re.compile(
    r"content[_ ](filter|policy|management)|ResponsibleAI|data_inspection_failed|\b1301\b|base_resp.{0,20}\b102[67]\b"
    r"|(input|prompt|content|request) (was|were|has been) flagged",
    re.IGNORECASE,
)
"""The wording of a filter that declines the prompt, with statuses such as 400."""
_TOO_LONG = re.compile(
    r"context[_ ]?(length|window|size)|(maximum|exceeds? .{0,30}) ?context|max_(prompt_tokens|seq_len|model_len)"
    r"|(prompt|input|conversation|history|context)( \w+){0,2}? too (long|large)|too many (input )?tokens"
    r"|too large for model|model token limit|(input|prompt) (token count|tokens exceed|exceeds|characters)"
    r"|range of input length|`?inputs`? (tokens|must have less than)|\b1261\b|request_too_large|max message tokens"
    r"|reduce the length of the|current length is \d+ while|max(imum)? (prompt|model|sequence|input) length"
    r"|(prompt|input|messages|requests?|tokens?)\b(?!.{0,40}max_).{0,40}"
    r"\b(exceeds? (the )?(max\w*|model|limit|allowed|total)"
    r"|(exceed(ed)?|more than) (the )?(max\w*|total)( allowed)?( number of)?( input)? tokens|exceed capacity)\b"
    r"|tokens_limit_reached|超长|过长|长度超过|超过.{0,10}最大长度",
    re.IGNORECASE | re.DOTALL,
)
_OUTPUT_LIMIT = re.compile(r"max_(completion_|output_)?tokens\W{1,3}(must be less|is too large|value)", re.IGNORECASE)
"""The wording for an output limit that the model does not allow, whatever else it mentions."""
_TOO_LARGE_FOR_RATE = re.compile(r"request too large.*(must be reduced|reduce your)", re.IGNORECASE | re.DOTALL)
"""The wording for a request larger than the allowed tokens per minute, for which waiting does not help."""
_BADLY_WORDED = re.compile(
    r"\btool_use_failed\b|\boutput_parse_failed\b|error parsing tool call|failed to parse (input at pos|tool call)",
    re.IGNORECASE,
)
"""The wording of Groq, Ollama and llama.cpp for a malformed call, which is the model's fault, not the request's."""
_NOT_LOADED = re.compile(r"requires more (system )?memory|(unable to|error) load(ing)? model", re.IGNORECASE)
"""The wording of Ollama, with status 500, for a model that does not fit into its machine, or that it can't read."""
_WAIT = re.compile(
    r"(?:(?:try again|retry) (?:in|after)|retryDelay)[\s:\"\\]*(?:(\d{1,4})\s*h(?:ours?)?\s*)?"
    r"(?:(\d{1,4})\s*m(?:in\w*)?(?![a-z])\s*)?(?:(\d{1,18}(?:\.\d{1,9})?)\s*(ms|s))?",
    re.IGNORECASE,
)
_PAGE = re.compile(r"\s*<(!doctype|html|head|body)\b", re.IGNORECASE)
WORD_FIELDS: Final = (
    "error", "message", "detail", "msg", "errors", "error_msg", "errorMessage", "status_msg", "base_resp",
)  # fmt: skip
"""The fields in which providers put the words of an error, or another table with them."""
_TITLE = re.compile(r"<title[^>]*>([^<]{1,300})</title>", re.IGNORECASE)
_MARKUP = re.compile(r"<(style|script)\b.*?</\1>|<[^>]*>", re.IGNORECASE | re.DOTALL)
_EPOCH = re.compile(r"\d{10}(\d{3})?", re.ASCII)
"""A moment in seconds or milliseconds since 1970."""
_VAGUE: Final = frozenset({400, 500, 503})
"""Statuses that providers also use for what others have statuses for: the words decide."""


def parse_retry_after(value: str | None, *, now: datetime | None = None) -> float | None:
    """Return the seconds to wait from a header, given in seconds, as ``1m30s`` or as a moment, else None."""
    text = value or ""
    is_epoch = _EPOCH.fullmatch(text)
    if not is_epoch and (told := wait_in_words(f"retry in {text} s")) is not None:
        return told
    try:
        read = datetime.fromisoformat if text[:4].isdigit() else parsedate_to_datetime
        moment = datetime.fromtimestamp(int(text[:10]), UTC) if is_epoch else read(text)
    except ValueError:
        return None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return max(0.0, (moment - (now or datetime.now(UTC))).total_seconds())


def wait_in_words(words: str) -> float | None:
    """Return the seconds to wait that a provider's text names (``try again in 1m2.5s``), or None."""
    found = _WAIT.search(words)
    if found is None or not any(found.groups()):
        return None
    seconds = float(found[3] or 0) / (1000 if (found[4] or "").lower() == "ms" else 1)
    return int(found[1] or 0) * 3600 + int(found[2] or 0) * 60 + seconds


def error_class(status: int, words: str, *, asks_to_wait: bool) -> type[ModelError]:
    """Return the error class for an HTTP status and the words of the body.

    A 429 that names an exhausted quota is not retryable unless the provider says how long to wait.
    """
    if status == 429 and _TOO_LARGE_FOR_RATE.search(words):
        return ContextTooLongError
    if status == 500 and _NOT_LOADED.search(words):
        return ModelRequestError
    if status in {400, 500} and _BADLY_WORDED.search(words):
        return ModelProtocolError
    if status in {403, 429, *_VAGUE} and not asks_to_wait and _EXHAUSTED.search(words):
        return ModelCreditError
    if status in {403, *_VAGUE} and _REFUSED.search(words):
        return ModelRefusalError
    if status in _VAGUE and _WRONG_KEY.search(words):
        return ModelKeyError
    if status in {413, 422, *_VAGUE} and _TOO_LONG.search(words) and not _OUTPUT_LIMIT.search(words):
        return ContextTooLongError
    return STATUS_ERRORS.get(status, ModelOverloadedError if status >= 500 else ModelRequestError)


class ErrorMapper(Struct, frozen=True, kw_only=True):
    """Builds the errors of one provider. It knows the ``api_key`` to mask it in every message."""

    provider: ProviderConfig
    api_key: str | None = None

    @property
    def endpoint(self) -> str:
        """Scheme, host and port of ``api_base``, without user and password."""
        try:
            parts = urlsplit(self.provider.api_base)
        except ValueError:
            return "?"
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2] or '?'}"

    def from_response(self, status: int, body: str, headers: Mapping[str, str], asked: str = "") -> ModelError:
        """Return the error for a response with an error status; a 404's message names the address ``asked``."""
        words = error_words(body)
        in_header = wait_in_words(f"retry in {headers.get('retry-after-ms')} ms")  # some give it in milliseconds
        in_words = wait_in_words(body) if status == 429 else None
        told = (in_header, parse_retry_after(headers.get("retry-after")), in_words)
        retry_after = next((seconds for seconds in told if seconds is not None), None)
        kind = error_class(status, f"{words} {body[:4096]}", asks_to_wait=retry_after is not None)
        if retry_after is None and status == 429:
            retry_after = _reset_of(headers)
        if 300 <= status < 400:
            words = f"redirected to {headers.get('location', '?')}"
        at = f" at {self.endpoint}{urlsplit(asked).path}" if asked and status == 404 else ""
        return self._build(kind, f"answered with an error{at}", words, status=status, retry_after=retry_after)

    def from_chunk(self, error: object) -> ModelError:
        """Return the error that a provider reports inside a stream that began well."""
        fields = table_of(error)
        raw = json.encode(error).decode()
        places = ("code", "status", "http_status_code", "http_code", "status_code", "statusCode")
        told = [whole_number(fields.get(place)) or 0 for place in places]
        status = next((number for number in told if 400 <= number < 600), 0)
        if not status:
            names = (str(fields.get("type", "")), str(fields.get("code", "")))
            status = next((CHUNK_ERRORS[name] for name in names if name in CHUNK_ERRORS), 500)
        retry_after = wait_in_words(raw) if status == 429 else None
        kind = error_class(status, raw, asks_to_wait=retry_after is not None)
        return self._build(
            kind, "failed in the middle of an answer", error_words(raw), status=status, retry_after=retry_after
        )

    def from_wire(self, error: Exception) -> ModelError:
        """Return the error for a failed connection, from the HTTP client's exception."""
        name = next(base.__name__ for base in type(error).__mro__ if base.__name__ in WIRE_ERRORS)
        kind, phrase = WIRE_ERRORS[name]
        if trust_advice(str(error)):
            kind, name = ModelTrustError, ""
        phrase = phrase.format(timeout=self.provider.silence_seconds, endpoint=self.endpoint, way=proxy_note(error))
        # A local protocol error quotes the header it refuses, which may contain the key in another encoding.
        words = "" if kind is ModelRequestError else str(error)
        mapped = self._build(kind, phrase, words)
        mapped.unreachable = name in UNREACHABLE
        return mapped

    def protocol(self, problem: str, words: str = "", *, status: int | None = None) -> ModelProtocolError:
        """Return the error for an answer that can't be understood; ``problem`` continues the words "provider X"."""
        return cast("ModelProtocolError", self._build(ModelProtocolError, problem, words, status=status))

    def refusal(self, problem: str) -> ModelError:
        """Return the error for an answer that is declined; ``problem`` continues the words "provider X"."""
        return self._build(ModelRefusalError, problem, "")

    def _build(
        self,
        kind: type[ModelError],
        problem: str,
        words: str,
        *,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> ModelError:
        """Build an error whose message quotes the provider and gives advice."""
        code = f" (HTTP {status})" if status is not None else ""
        quote = self.quoted(words)
        key = self.provider.api_key_env_var or "the key"
        advice = ADVICE[kind].format(endpoint=self.endpoint, key=key, trust=trust_advice(str(status or words)))
        message = f"provider {self.provider.name!r} {problem}{code}{': ' + quote if quote else ''}; {advice}"
        return kind(message, provider=self.provider.name, status=status, retry_after=retry_after)

    def quoted(self, words: str) -> str:
        """Return a provider's words for display: on one line, at most QUOTE_LIMIT characters, with the key masked."""
        if self.api_key and len(self.api_key) >= SHORTEST_KEY:
            words = words.replace(self.api_key, "***")
        clean = " ".join("".join(char if char.isprintable() else " " for char in words).split()).rstrip(".;")
        return clean if len(clean) <= QUOTE_LIMIT else clean[: QUOTE_LIMIT - 1] + "…"


def _reset_of(headers: Mapping[str, str]) -> float | None:
    """Return the seconds until every limit that is used up is reset, as some providers tell it after each call."""
    resets = [name for name in headers if "ratelimit" in name.lower() and "reset" in name.lower()]
    used_up = [name for name in resets if headers.get(name.lower().replace("reset", "remaining"), "0") == "0"]
    return max(filter(None, (parse_retry_after(headers[name]) for name in used_up)), default=None)


def error_words(body: str) -> str:
    """Return the message of an error body: from JSON of a known shape, the title of an HTML page, or the body itself.

    If a router adds the message of the provider behind it, that is appended.
    """
    try:
        node: object = json.decode(body)
    except INVALID_JSON:
        return _page_words(body)
    upstream = ""
    for _ in range(4):
        if isinstance(node, list) and node:
            node = cast("list[object]", node)[0]
        if not isinstance(node, dict):
            break
        fields = cast("dict[str, object]", node)
        upstream = upstream or error_words(text_in(table_of(fields.get("metadata")).get("raw")))
        if isinstance(fields.get("loc"), list) and isinstance(fields.get("msg"), str):
            place = ".".join(str(name) for name in cast("list[object]", fields["loc"]) if name != "body")
            node = f"{place}: {fields['msg']}" if place else fields["msg"]
            break
        inner = next((fields[key] for key in WORD_FIELDS if fields.get(key)), None)
        if inner is None:
            break
        node = inner
    if not isinstance(node, str):
        return body
    return f"{node}: {upstream}" if upstream else _page_words(node)


def _page_words(page: str) -> str:
    """Return the title of an HTML page, else its text; other text unchanged."""
    if not _PAGE.match(page):
        return page
    title = _TITLE.search(page)
    words = title[1] if title else _MARKUP.sub(" ", page)
    return unescape(" ".join(words.split()))
