"""What is said when a call waits for a yes, and how what was typed is understood; pure."""

from __future__ import annotations

import json
import unicodedata
from typing import Any

from vibe.core.tools.ports import ApprovalAnswer, ApprovalRequest, ApprovalScope

PREVIEW_LINES = 20
PREVIEW_CHARACTERS = 2_000
"""Of a file's content: enough to see what it is. What is left out is counted."""

FULL = frozenset({"command", "path", "file_path", "url"})
"""Arguments that say what will be done: always shown whole."""

PROMPT = "  [y] once  [s] this session  [a] always here  [n] no, or: n WHY  > "
UNCLEAR = "  Please answer y, s, a or n.\n"

_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def question_text(request: ApprovalRequest, step_title: str = "") -> str:
    """Step, tool, summary, arguments, the rule that asks and what a lasting yes would cover; safe to print."""
    whose = f"  for step: {visible(step_title)}" if step_title else ""
    lines = ["", f"? {visible(request.tool)} wants to run{whose}"]
    summary = visible(request.summary)
    if request.summary and not _is_repeated(request):
        lines.append(f"    {summary}")
    for name, value in request.arguments.items():
        lines += _argument(visible(name), value)
    because = f": {visible(request.reason)}" if request.reason else ""
    lines.append(f"  asked by {visible(request.rule)}{because}")
    if request.covers:
        lines.append(f"  s or a would allow: {', '.join(visible(key) for key in request.covers)}")
    return "\n".join(lines) + "\n"


def parse_answer(line: str) -> ApprovalAnswer | None:
    """y, s, a, n or ``n`` and a reason; None if it is none of them."""
    word, _, reason = line.strip().partition(" ")
    match word.casefold():
        case "y" | "yes":
            return ApprovalAnswer(allow=True) if not reason else None
        case "s" | "session":
            return ApprovalAnswer(allow=True, scope=ApprovalScope.SESSION) if not reason else None
        case "a" | "always":
            return ApprovalAnswer(allow=True, scope=ApprovalScope.ALWAYS) if not reason else None
        case "n" | "no":
            return ApprovalAnswer(allow=False, reason=reason.strip())
        case _:
            return None


def visible(text: str) -> str:
    """Text in which every character that does not print is spelled out, as Python would: a line break, a colour."""
    return text if text.isascii() and text.isprintable() else "".join(map(_shown, text))


def _shown(char: str) -> str:
    if unicodedata.category(char) in _UNSEEN:
        return char.encode("unicode_escape", errors="surrogatepass").decode("ascii")
    return char


def _is_repeated(request: ApprovalRequest) -> bool:
    """Whether the arguments below say the same again."""
    shown = {value for value in request.arguments.values() if isinstance(value, str)}
    return any(request.summary in {value, f"{request.tool} {value}", f"{request.tool}: {value}"} for value in shown)


def _argument(name: str, value: Any) -> list[str]:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if name in FULL:
        first, *others = text.split("\n")
        return [f"    {name}: {visible(first)}", *(f"      {visible(line)}" for line in others)]
    text = text.removesuffix("\n")
    lines = text.split("\n")
    if len(lines) == 1 and len(text) <= 200:
        return [f"    {name}: {visible(text)}"]
    shown = text[:PREVIEW_CHARACTERS].split("\n")[:PREVIEW_LINES]
    left_lines = len(lines) - len(shown)
    left = len(text) - len("\n".join(shown))
    more = [f"      … {left:,} more characters" + (f" in {left_lines:,} more lines" if left_lines else "")]
    return [f"    {name}:", *(f"    | {visible(line)}" for line in shown), *(more if left else [])]
