"""Tool calls and what they change, in the words of the protocol; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from acp.helpers import text_block, tool_content, tool_diff_content
from acp.schema import ContentToolCallContent, FileEditToolCallContent, TerminalToolCallContent, ToolCallLocation

from ipc.events import ApprovalRequestEvent, ToolCallEvent, ToolResultEvent
from vibe.core.plain_text import both_ends, plain, plain_line, shortened

ToolKind = Literal["read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other"]
ToolContent = ContentToolCallContent | FileEditToolCallContent | TerminalToolCallContent

KINDS: Mapping[str, ToolKind] = MappingProxyType({
    "read_file": "read",
    "list_dir": "search",
    "glob": "search",
    "grep": "search",
    "search_replace": "edit",
    "write_file": "edit",
    "bash": "execute",
    "background": "execute",
    "shell": "execute",
    "todo": "think",
    "web_fetch": "fetch",
})
"""Tools that are not named are of the kind ``other``."""
TITLE_LENGTH = 300
TEXT_LENGTH = 16_000
PATHS = ("file_path", "path")
NEW_FILE = "write_file"


def kind_of(tool: str) -> ToolKind:
    """Return the kind of a tool."""
    return KINDS.get(tool, "other")


def title_of(event: ToolCallEvent | ApprovalRequestEvent) -> str:
    """Return a call on one line."""
    return shortened(plain_line(event.summary or event.tool), TITLE_LENGTH)


def locations_of(arguments: Mapping[str, Any], root: Path) -> list[ToolCallLocation]:
    """Return the file that a call names, for the editor to follow."""
    path = _path_of(arguments, root)
    offset = arguments.get("offset")
    line = offset + 1 if isinstance(offset, int) and offset >= 0 else None
    return [] if path is None else [ToolCallLocation(path=path, line=line)]


def changes_of(diff: str, event: ToolCallEvent | ApprovalRequestEvent, root: Path) -> list[ToolContent]:
    """Return the change a call makes to a file, a piece for each place; empty: it makes none, or none that is told."""
    path = _path_of(event.arguments, root)
    if path is None or kind_of(event.tool) != "edit":
        return []
    if diff:
        return [tool_diff_content(path, new, old) for old, new in _places(diff)]
    content = event.arguments.get("content")
    is_new = event.tool == NEW_FILE and isinstance(content, str)
    return [tool_diff_content(path, str(content))] if is_new else []


def result_of(event: ToolResultEvent) -> list[ToolContent]:
    """Return the result of a call as text."""
    return text_of(event.content, is_code=kind_of(event.tool) in {"execute", "search"})


def text_of(text: str, *, is_code: bool = False) -> list[ToolContent]:
    """Return a text as content: safe to show, and of a bounded length; ``is_code``: in the letters it came in."""
    shown = plain(both_ends(text, TEXT_LENGTH)).strip("\n")
    if not shown.strip():
        return []
    return [tool_content(text_block(as_code(shown) if is_code else shown))]


def as_code(text: str) -> str:
    """Return text as a code block of Markdown, whatever fences are in it."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"


def _path_of(arguments: Mapping[str, Any], root: Path) -> str | None:
    given = next((arguments[name] for name in PATHS if isinstance(arguments.get(name), str)), "")
    return str(root / given) if given and "\0" not in given else None


def _places(diff: str) -> Iterator[tuple[str, str]]:
    """Yield the text before and after at each place of a unified diff; a diff that was cut ends where it was."""
    old: list[str] = []
    new: list[str] = []
    for line in [*_hunk_lines(diff.split("\n")), "@@"]:
        if line.startswith("@@"):
            if old or new:
                yield "\n".join(old), "\n".join(new)
            old, new = [], []
        else:
            old += [line[1:]] if line[:1] in {" ", "-", ""} else []
            new += [line[1:]] if line[:1] in {" ", "+", ""} else []


def _hunk_lines(lines: Sequence[str]) -> Iterator[str]:
    begun = False
    for line in lines:
        begun = begun or line.startswith("@@")
        if begun and not line.startswith("… "):
            yield line
