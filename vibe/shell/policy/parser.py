"""Shell lines as a syntax tree sees them: every command wherever it stands, and what makes a line hard to foresee."""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from time import thread_time
from typing import TYPE_CHECKING

from vibe.shell.policy.flow import Flow
from vibe.shell.policy.words import TOO_COMPLEX, KnownState, Place, ShellCommand, ShellLine, TooComplexError, Word

if TYPE_CHECKING:
    from tree_sitter import Parser, Tree

__all__ = ["ShellCommand", "ShellLine", "Word", "parse_line"]

INVISIBLE = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})
ODD_CHARACTER = re.compile(r"[^\S \t\n]|[\x00-\x08\x0e-\x1f\x7f]|\\\s")
"""The last part: around a backslash before white space the parser and bash part ways."""


HERE_DOCUMENT = re.compile(r"<<-?[ \t]*['\"\\]?(?P<end>\w+)")
MAX_LINE = 32_768
MAX_NODES = 16_000
MAX_PIPES = 1_500
MAX_HERE_DOCUMENTS = 100
SHORT = 1_000
PARSING_SECONDS = 0.25
"""The processor's time for the tree of a line: with many a line it grows with the square of its length."""
MAX_NESTING = 100
"""Nested deeper, a line is not read: what can't be understood at a glance is asked about."""


@lru_cache(maxsize=256)
def parse_line(line: str, start: Place = ()) -> ShellLine:
    """Parse a shell line that begins in ``start``; what can't be understood is a surprise, never an error."""
    if len(line) > MAX_LINE:
        return _unread(f"it is longer than {MAX_LINE:,} characters, too long to check".replace(",", " "))
    tree = _tree(line)
    if tree is None or tree.root_node.descendant_count > MAX_NODES or _nests_deeply(tree):
        return _unread("it is too large to check")
    flow = Flow()
    if ODD_CHARACTER.search(line) or _has_invisible(line):
        flow.surprise("it contains unusual characters", barred=True)
    try:
        flow.walk(tree.root_node, KnownState(places=frozenset({start})), fed=False)
    except (TooComplexError, RecursionError):
        return _unread(TOO_COMPLEX)
    found = flow.line
    if tree.root_node.has_error:
        flow.surprise("it is not valid shell syntax", barred=True)
        found.commands += _rough_commands(line)
    found.fed_texts = list(dict.fromkeys((*found.fed_texts, *_here_documents(line))))
    found.barred = found.barred or flow.reads_environment
    return found


def _here_documents(line: str) -> Iterator[str]:
    """The texts of here-documents as they stand in a line: the parser takes some for words."""
    for found in HERE_DOCUMENT.finditer(line):
        body = line[found.end() :].partition("\n")[2]
        end = re.search(rf"^\t*{re.escape(found['end'])}$", body, re.MULTILINE)
        yield body[: end.start()] if end else body


def _unread(why: str) -> ShellLine:
    return ShellLine(surprises=[why], opaque=why)


def _rough_commands(line: str) -> list[ShellCommand]:
    """The commands of a line that does not parse, as far as its operators tell them apart."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    commands: list[list[Word]] = [[]]
    try:
        for token in lexer:
            if set(token) <= set("();<>|&"):
                commands.append([])
            else:
                commands[-1].append(Word(text=token, pattern=True))
    except ValueError:
        pass
    return [ShellCommand(words=tuple(words)) for words in commands if words]


def _nests_deeply(tree: Tree) -> bool:
    cursor = tree.walk()
    while True:
        if cursor.depth > MAX_NESTING:
            return True
        if cursor.goto_first_child() or cursor.goto_next_sibling():
            continue
        while cursor.goto_parent():
            if cursor.goto_next_sibling():
                break
        else:
            return False


def _has_invisible(line: str) -> bool:
    """Return whether an invisible character, or one that turns the text around, is in it."""
    if line.isascii():
        return False
    return any(unicodedata.category(char) in INVISIBLE for char in line if not char.isascii())


def _tree(line: str) -> Tree | None:
    """The syntax tree; None where it would take too long to make."""
    if "\0" in line or line.count("|") > MAX_PIPES or line.count("<<") > MAX_HERE_DOCUMENTS:
        return None
    source = line.encode(errors="surrogatepass")
    if len(source) > SHORT:
        until = thread_time() + PARSING_SECONDS
        try:
            _parser().parse(
                lambda at, _point: source[at : at + SHORT],
                progress_callback=lambda _at, _failed: thread_time() > until,
            )
        except ValueError:
            return None
    return _shared_parser().parse(source)  # only a tree made from the whole text knows the texts of its nodes


def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


_shared_parser = lru_cache(maxsize=1)(_parser)
"""The parser of what is parsed in one go; where it calls back, another thread might step in."""
