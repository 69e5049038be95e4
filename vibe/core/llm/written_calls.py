"""Recognises tool calls that arrive as text because the model's server did not parse them."""

from __future__ import annotations

import re
from collections.abc import Collection

import msgspec

from vibe.core.schemas import table_of, tables_of

_NAME = r"(?:functions\.)?(?P<name>[\w-]+)(?::\d+)?"
_NAMED = r'(?=.*?"(?:name|tool|function)"\s*:\s*"(?:functions\.)?(?P<name>[\w-]+)")'
_JSON = rf"(?:```\w*\s*)?[\[{{]{_NAMED}.*[\]}}]\s*(?:```)?"
_BAR, _SPACE = r"[|\uff5c]", r"[_\u2581]"
_CLOSED = r"(?:\s*<\|?/?\w+\|?>)*"
_FORMS = tuple(
    (re.compile(opening), re.compile(f"(?:{rest}){_CLOSED}", re.DOTALL))
    for opening, rest in (
        (r"<(?:tool_calls?|\|tool_calls?\|?)>\s*", _JSON),
        (r"<(?:tool_call|\|tool_call\|?)>(?:call:)?\s*", rf"{_NAME}\s*[<{{(].*[>}})]"),
        (r"<function=", rf"{_NAME}>.*(?:\}}|</\w+>)"),
        (r"<(?:\w+:)?invoke name=[\"']", rf"{_NAME}[\"']>.*</(?:\w+:)?\w+>"),
        (r"\[TOOL_CALLS\]\s*", _JSON),
        (r"\[TOOL_CALLS\]\s*", rf"{_NAME}(?:\[\w+\]\w*)*\s*\{{.*\}}"),
        (r"<\|(?:python_tag|plugin)\|>\s*", _JSON),
        (r"<\|python_tag\|>\s*", rf"{_NAME}(?:\.call)?\(.*\)"),
        (
            rf"<{_BAR}tool{_SPACE}call{_SPACE}begin{_BAR}>(?:function<{_BAR}tool{_SPACE}sep{_BAR}>)?\s*",
            rf"{_NAME}.*[}}>`]",
        ),
        (r"to=functions\.", rf"{_NAME}\W.*\{{.*\}}"),
        (r"Action:\s*", rf"{_NAME}\s*\n\s*Action Input:.*\}}"),
    )
)
"""Pairs of patterns: a marker that opens a call, and the call.

Text may precede the last marker, but nothing may follow the call."""
_ALONE = tuple(
    re.compile(form, re.DOTALL)
    for form in (
        r"functions\.(?P<name>[\w-]+):\d+\s*\{.*\}",
        rf"(?:```tool_code\s*)?\[?\s*(?:print\(\s*)?{_NAME}\(\s*(?:\w+\s*=.*)?\)+\s*\]?\s*(?:```)?",
    )
)
"""Patterns of calls without a marker, which count only if they are the whole text."""
_FENCE = re.compile(r"```\w*\s*\n(.*?)\n?\s*```", re.DOTALL)
_KEYS = frozenset({"name", "tool", "function", "arguments", "parameters", "args", "input", "type", "id"})
"""The keys that a JSON object may have to count as a call."""


def written_call(text: str, offered: Collection[str]) -> str:
    """Return the name of the ``offered`` tool that the text calls, if it ends with a call; else an empty string.

    A call with text after it does not count, nor does plain JSON or code with text around it.
    """
    text = text.strip()
    found: list[re.Match[str]] = []
    for opening, rest in _FORMS:
        *_, last = (0, *(match.end() for match in opening.finditer(text)))
        if last and (match := rest.fullmatch(text, last)) is not None:
            found.append(match)
    found += [match for form in _ALONE if (match := form.fullmatch(text)) is not None]
    names = [*(match["name"] for match in found), _named_in(text)]
    return next((name for name in names if name in offered), "")


def _named_in(text: str) -> str:
    """Return the tool's name if the text is JSON of one or several calls, fenced or not; else an empty string."""
    fenced = _FENCE.fullmatch(text)
    try:
        value: object = msgspec.json.decode(fenced[1] if fenced else text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return ""
    calls = tables_of(table_of(value).get("tool_calls", value))
    call = table_of(calls[0].get("function")) or calls[0] if calls else {}
    given = next((call[key] for key in ("arguments", "parameters", "args", "input") if key in call), None)
    if given is None or not _KEYS.issuperset(call):
        return ""
    return str(call.get("name") or call.get("tool") or call.get("function") or "").removeprefix("functions.")
