"""Removes secrets from what is shown or stored about a call."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import takewhile
from operator import eq
from typing import Any, cast

MASK = "[redacted]"
"""The text that replaces a secret."""
SHORTEST = 8
"""The least characters of a variable's value that is removed. Shorter ones are common words in harmless text."""

SECRET_NAME = re.compile(
    r"(?i)(api_?|access_|private_)key|token|secret|passw(or)?d|passphrase|credential|_key\Z|(^|_)pass\Z|_pat\Z|_pwd\Z"
)
"""The names of variables that a model's commands do not get."""
_MASKED_NAME = re.compile(rf"{SECRET_NAME.pattern}|key|auth")
"""The names of variables whose values are removed from what is shown."""
_ASSIGNMENT = re.compile(
    r"(?i)((?:api[_-]?key|token(?!s[\"']?\s{0,8}[=:])|secret|passw(?:or)?d)"
    r"[\w-]{0,64}[\"']?\s{0,8}[=:]\s{0,8}[\"']?)([^\s\"'&;]{4,})"
)
_OPTION = re.compile(r"(?i)(--?(?:password|passwd|token|api-key|secret)[= ])(\S+)")
_BEARER = re.compile(r"(?i)\b((?:bearer|basic)\s+)([\w.~+/=-]{8,})")
_IN_URL = re.compile(r"(://[^\s/:@]*:)([^\s/@]+)(?=@)")
_TOKEN_IN_URL = re.compile(r"(https?://)([\w.~-]{16,})(?=@)")
"""A token by itself as the user name of an address."""
_KNOWN_KEYS = tuple(
    (signs, tuple(hints.split()), re.compile(shape))
    for signs, hints, shape in (
        (
            "-_",
            "sk- sk_ pk- pk_ rk- rk_ glpat gldt glrt xox xapp tskey",
            r"\b(?:sk|pk|rk|glpat|gldt|glrt|xox[abeoprs]|xapp|tskey)[-_][\w-]{12,}",
        ),
        (
            "-_",
            "gho ghp ghr ghs ghu github_pat npm- npm_ hf- hf_ dckr_pat dop_v1 shpat lin_api",
            r"\b(?:gh[oprsu]|github_pat|npm|hf|dckr_pat|dop_v1|shpat|lin_api)[-_](?=\w{0,255}\d)[\w-]{12,}",
        ),
        (".-", "hvs. pypi-AgE", r"\b(?:hvs\.|pypi-AgE)[\w-]{12,}"),
        ("A", "AKIA ASIA", r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
        ("A", "AIza", r"\bAIza[\w-]{35}"),
        (".", "ya29.", r"\bya29\.[\w-]{20,}"),
        (".", "SG.", r"\bSG\.[\w-]{16,255}\.[\w-]{16,}"),
        (".", ".eyJ", r"\beyJ[\w-]{8,2048}\.eyJ[\w-]{8,16384}\.[\w-]{8,}"),
        ("-", "AGE-SECRET-KEY-1", r"\bAGE-SECRET-KEY-1[0-9A-Z]{20,}"),
        (
            "-",
            "PRIVATE",
            (
                r"-----BEGIN (?:[A-Z]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----[^-]{16,16384}"
                r"(?:-----END (?:[A-Z]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----)?"
            ),
        ),
    )
)
"""Shapes of keys, each with characters and words of which any such key contains one, because these are faster to find.

Repetitions that are followed by something have a limit, so that the time is proportional to the length of the text.
"""
_SIGNS = "".join(sorted({sign for signs, _, _ in _KNOWN_KEYS for sign in signs}))
LONGEST = 20 * 1024
"""The longest secret that is searched for. Only a longer one may be split by ``safe_cut``."""
PIECE_CONTEXT = 256
"""Characters before a piece of text that are looked at with it."""
_CUTS = 32
"""The most places that are tried for a cut."""
_STEP = LONGEST // 16
"""The number of characters between two places that are tried."""
_WORDS = re.compile(r"(?:sk|pk|rk|glpat|gldt|glrt|xox[abeoprs]|xapp|tskey)[-_]")
_HARMLESS = re.compile(r"[~.]{0,2}(?:/[\w.@+-]+){2,}/?(?::.*)?|[a-z]+|[\d.,:]+|(?i:true|false|none|null)")
"""Values that are not secrets, whatever the name of their variable: paths, plain words, numbers."""
_OPEN_NAME = re.compile(r"(?i)author(?!iz)|\ABASH_FUNC_")
"""The names among those of secrets that stand for something else: people, and functions that bash exports."""


def redact(text: str, environ: Mapping[str, str]) -> str:
    """Return ``text`` without the values of secret variables and whatever looks like a key, a token or a password."""
    for value in _values(environ):
        text = text.replace(value, MASK)
    text = _without_url_secrets(text)
    if _may_hold(text, ("api", "token", "secret", "passw")):
        for pattern in (_OPTION, _ASSIGNMENT):
            text = pattern.sub(rf"\g<1>{MASK}", text)
    return _without_keys(text)


class Mask:
    """Removes secrets from what tools print, but keeps anything that merely could be one."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._exact = [value for value in _values(environ) if not _HARMLESS.fullmatch(value)]
        self._values = re.compile("|".join(map(re.escape, self._exact)))

    def known(self, text: str) -> str:
        """Return ``text`` without the values of secret variables.

        Use it for texts that must not change, such as files.
        """
        return self._values.sub(MASK, text) if any(value in text for value in self._exact) else text

    def printed(self, text: str) -> str:
        """Return ``text`` without known secrets and whatever has the shape of a well-known token."""
        return _without_keys(_without_url_secrets(self.known(text)))

    def inside(self, value: Any) -> Any:
        """Return JSON data with ``printed`` applied to every text in it."""
        return each_text(value, self.printed)


class PieceMask:
    """Masks texts that come in pieces: each as a part of its text, since what was before may make a secret of it."""

    def __init__(self, masked: Callable[[str], str]) -> None:
        self._masked = masked
        self._before: dict[str, str] = {}

    def __call__(self, piece: str, stream: str = "") -> str:
        """Return the next piece of a stream without secrets. Of one that began before, only the mask is left."""
        before = self._before.get(stream, "")
        whole = before + piece
        key = whole.rfind("-----BEGIN ", -LONGEST)
        is_open = key >= 0 and "-----END " not in whole[key:]
        self._before[stream] = whole[-max(PIECE_CONTEXT, len(whole) - key if is_open else 0) :]
        shown = self._masked(whole)
        return shown[sum(takewhile(bool, map(eq, self._masked(before), shown))) :]


def each_text(value: Any, change: Callable[[str], str]) -> Any:
    """Return JSON data with every text in it changed, except for field names."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {name: each_text(inner, change) for name, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [each_text(inner, change) for inner in cast("list[Any]", value)]
    return value


def safe_cut(text: str, masked: Callable[[str], str]) -> int:
    """Return where to cut ``text``, which will go on, so that ``masked`` finds the same secrets in both parts.

    The part after the cut is long enough to contain the rest of any secret that begins before it.
    """
    last = len(text) - LONGEST
    for upper in range(last, max(last - _CUTS * _STEP, 0), -_STEP):
        start = max(upper - LONGEST, 0)
        line, word = text.rfind("\n", start, upper) + 1, text.rfind(" ", start, upper) + 1
        for place in (line or word or upper, text.rfind("-----BEGIN ", start, upper)):
            if place <= 0:
                continue
            before, after = text[max(place - LONGEST, 0) : place], text[place : place + LONGEST]
            if masked(before + after) == masked(before) + masked(after):
                return place
    return max(last, 0)


def _may_hold(text: str, words: tuple[str, ...]) -> bool:
    """Return whether the text may contain one of the words, ignoring case."""
    if not text.isascii():
        return True
    lower = text.lower()
    return any(word in lower for word in words)


def _without_url_secrets(text: str) -> str:
    """Return ``text`` without secrets that are recognized by their place in an address or a header."""
    if "://" in text:
        text = _TOKEN_IN_URL.sub(rf"\g<1>{MASK}", _IN_URL.sub(rf"\g<1>{MASK}", text))
    return _BEARER.sub(rf"\g<1>{MASK}", text) if _may_hold(text, ("bearer", "basic")) else text


def _without_keys(text: str) -> str:
    signed = {sign for sign in _SIGNS if sign in text}
    if not signed:
        return text
    for signs, hints, shape in _KNOWN_KEYS:
        if not signed.isdisjoint(signs) and any(hint in text for hint in hints):
            text = shape.sub(_mask_of, text)
    return text


def _mask_of(found: re.Match[str]) -> str:
    """Return the mask, or the text itself if it is words joined by dashes: it may begin like a key but has no digit."""
    is_words = _WORDS.match(found[0]) and not any(map(str.isdigit, found[0]))
    return found[0] if is_words else MASK


def _values(environ: Mapping[str, str]) -> list[str]:
    """Return the values of secret variables, the longest first.

    Lines of a value are secrets too, since not all of them may be printed together. The first and the last line of a
    key are not: other keys are recognized by these.
    """
    values = {value for name, value in environ.items() if _MASKED_NAME.search(name) and not _OPEN_NAME.search(name)}
    lines = {line.strip() for value in values if "\n" in value for line in value.splitlines()}
    secrets = values | {line for line in lines if not (line.startswith("-----") or _HARMLESS.fullmatch(line))}
    return sorted((secret for secret in secrets if len(secret) >= SHORTEST), key=len, reverse=True)
