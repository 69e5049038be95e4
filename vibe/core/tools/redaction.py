"""Taking secrets out of what is shown or kept about a call."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

MASK = "[redacted]"
SHORTEST = 8
"""Shorter values of variables are words that would tear holes in harmless text."""

_SECRET_VARIABLE = re.compile(r"(?i)(key|token|secret|passw(or)?d|credential|auth)")
_ASSIGNMENT = re.compile(
    r"(?i)((?:api[_-]?key|token|secret|passw(?:or)?d)[\w-]{0,64}[\"']?\s{0,8}[=:]\s{0,8}[\"']?)([^\s\"'&;]{4,})"
)
_OPTION = re.compile(r"(?i)(--?(?:password|passwd|token|api-key|secret)[= ])(\S+)")
_BEARER = re.compile(r"(?i)\b((?:bearer|basic)\s+)([\w.~+/=-]{8,})")
_IN_URL = re.compile(r"(://[^\s/:@]+:)([^\s/@]+)(?=@)")
_TOKEN_IN_URL = re.compile(r"(https?://)([\w.~-]{16,})(?=@)")
"""A token alone, as the user of an address."""
_KNOWN_KEYS = re.compile(
    r"\b(?:(?:sk|pk|rk|glpat|gldt|glrt|xox[abeoprs]|xapp|tskey)[-_](?=[\w-]*\d)"
    r"|(?:gh[oprsu]|github_pat|npm|hf|dckr_pat|dop_v1|shpat|lin_api)[-_](?=\w*\d)|hvs\.|pypi-AgE)[\w-]{12,}"
    r"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b|\bAIza[\w-]{35}|\bya29\.[\w-]{20,}|\bSG\.[\w-]{16,}\.[\w-]{16,}"
    r"|\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}|\bAGE-SECRET-KEY-1[0-9A-Z]{20,}"
    r"|-----BEGIN (?:[A-Z]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----[^-]{16,16384}(?:-----END (?:[A-Z]+ ){0,3}PRIVATE KEY(?: BLOCK)?-----)?"
)
_HARMLESS = re.compile(r"[~.]{0,2}(?:/[\w.@+-]+){2,}/?(?::.*)?|[a-z]+|[\d.,:]+|(?i:true|false|none|null)")
"""Values that are no secrets, whatever their variable is called: places, plain words, numbers."""
_AUTHOR = re.compile(r"(?i)author(?!iz)")


def redact(text: str, environ: Mapping[str, str]) -> str:
    """``text`` without the values of secret variables and without what looks like a key, a token or a password."""
    for value in _values(environ):
        text = text.replace(value, MASK)
    for pattern in (_IN_URL, _TOKEN_IN_URL, _BEARER, _OPTION, _ASSIGNMENT):
        text = pattern.sub(rf"\g<1>{MASK}", text)
    return _KNOWN_KEYS.sub(MASK, text)


class Mask:
    """Takes secrets out of what tools print, and leaves all that only might be one as it is."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        values = _values(environ)
        exact = sorted((value for value in values if not _HARMLESS.fullmatch(value)), key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, exact))) if exact else None

    def known(self, text: str) -> str:
        """``text`` without the values of the user's secret variables: for texts that must stay as they are, such as files."""
        return self._values.sub(MASK, text) if self._values else text

    def printed(self, text: str) -> str:
        """The same, and without what has the shape of a well-known token."""
        text = self.known(text)
        for pattern in (_IN_URL, _TOKEN_IN_URL, _BEARER):
            text = pattern.sub(rf"\g<1>{MASK}", text)
        return _KNOWN_KEYS.sub(MASK, text)

    def inside(self, value: Any) -> Any:
        """JSON with every text in it as ``printed``."""
        if isinstance(value, str):
            return self.printed(value)
        if isinstance(value, dict):
            return {name: self.inside(inner) for name, inner in cast("dict[str, Any]", value).items()}
        if isinstance(value, list):
            return [self.inside(inner) for inner in cast("list[Any]", value)]
        return value


def _values(environ: Mapping[str, str]) -> list[str]:
    return [
        value
        for name, value in environ.items()
        if len(value) >= SHORTEST and _SECRET_VARIABLE.search(name) and not _AUTHOR.search(name)
    ]
