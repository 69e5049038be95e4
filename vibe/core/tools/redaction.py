"""Taking secrets out of what is shown or kept about a call."""

from __future__ import annotations

import re
from collections.abc import Mapping

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
_KNOWN_KEYS = re.compile(r"\b(?:sk|pk|rk|ghp|gho|ghs|github_pat|glpat|xox[abp])[-_][\w-]{12,}|\bAKIA[0-9A-Z]{16}\b")


def redact(text: str, environ: Mapping[str, str]) -> str:
    """``text`` without the values of secret variables and without what looks like a key, a token or a password."""
    for name, value in environ.items():
        if len(value) >= SHORTEST and _SECRET_VARIABLE.search(name):
            text = text.replace(value, MASK)
    for pattern in (_IN_URL, _BEARER, _OPTION, _ASSIGNMENT):
        text = pattern.sub(rf"\g<1>{MASK}", text)
    return _KNOWN_KEYS.sub(MASK, text)
