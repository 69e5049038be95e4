"""Values that the words of a shell line may have, with the variables and substitutions in them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from vibe.shell.policy.words import (
    EXPANSION_NODES,
    RUNS_ITS_WORDS,
    SHOWN_VARIABLES,
    SOME_NUMBER,
    SOME_TEXT,
    UNKNOWN,
    KnownState,
    ShellCommand,
    ShellLine,
    TooComplexError,
    Values,
    Word,
    decoded,
    is_number,
    joined,
    literal,
    substitutions,
    text_of,
    unquoted,
    value_of,
)

if TYPE_CHECKING:
    from tree_sitter import Node

ARITHMETIC = re.compile(r"\$\(\((?P<sum>[\w\s+\-*/%()$]+)\)\)")
SIMPLE_EXPANSION = re.compile(r"\$\{?(?P<name>\w+|[?#$!])\}?")
CUT_EXPANSION = re.compile(
    r"\$\{(?P<name>[a-z_][a-z0-9_]*)(?:%%?|##?)[\w.*/-]+\}|\$\{#(?P<measured>[a-z_][a-z0-9_]*)\}"
)
RANGE = re.compile(r"\{(?P<first>-?\d{1,6})\.\.(?P<last>-?\d{1,6})\}")
INSTEAD = re.compile(r"^\$\{\w+:?[-=+](?P<word>.*)\}$", re.DOTALL)
REPEATING = frozenset({("echo",), ("printf",), ("which",), ("command",), ("type",), ("readlink",), ("realpath",)})
PLAIN_OUTPUT = frozenset({
    "git rev-parse HEAD", "git rev-parse --short HEAD", "git rev-parse --abbrev-ref HEAD", "git branch --show-current",
    "whoami", "nproc", "id -u", "id -un", "id -g", "uname", "uname -s", "uname -m", "uname -r",
})  # fmt: skip
"""Each prints one word that stands for itself."""
MAX_WORK = 1_000_000
"""Nodes visited and characters of known values, together."""
MAX_BRACED = 10_000
"""The most words that the ranges in braces of a line may make, multiplied."""
MAX_VARIABLES = 200


class Expansions(ABC):
    """Reads words; what is found in substitutions is noted as whoever walks the line does it."""

    def __init__(self) -> None:
        self.line = ShellLine()
        self.named_variables: set[str] = set()
        self.set_variables: set[str] = set()
        self._work = MAX_WORK
        self._braced = 1

    @property
    def reads_environment(self) -> bool:
        """True if it names variables that it does not set and that are not public."""
        return bool(self.named_variables - self.set_variables - SHOWN_VARIABLES)

    def surprise(self, why: str, *, barred: bool = False) -> None:
        """Note why the line may do more than its words say; ``barred``: in a read-only sandbox, too."""
        if why not in self.line.surprises:
            self.line.surprises.append(why)
        self.line.barred = self.line.barred or barred

    def spend(self, work: int) -> None:
        """Take some of the work that a line may make.

        Raises:
            TooComplexError: it has made too much.
        """
        self._work -= work
        if self._work < 0 or len(self.set_variables) > MAX_VARIABLES:
            raise TooComplexError

    @abstractmethod
    def in_order(self, nodes: Iterable[Node], state: KnownState, *, fed: bool) -> KnownState:
        """Take nodes one after the other; the state after them."""

    def hold(self, node: Node, names: Sequence[str], values: Values) -> None:
        """Keep what a variable holds, be it no more than a guess, for whoever looks for what may be run."""
        known = [word.guess if word.text is None else word.text for word in values]
        array = next((child for child in node.children if child.type == "array"), None)
        elements = [literal(part) for part in array.named_children] if array is not None else []
        known += [word.text or word.guess for word in elements if word is not None]
        for text in filter(None, known):
            self.line.assigned.append(("".join(names), text))
            self.line.nested += substitutions(text)

    def note_steering(self, node: Node) -> None:
        """Keep which functions run their words, and what a declaration carries."""
        text = text_of(node)
        if node.type == "function_definition":
            self.line.functions.update(text_of(child) for child in node.children if child.type == "word")
            if RUNS_ITS_WORDS.search(text):
                self.line.passing.update(text_of(child) for child in node.children if child.type == "word")
        else:
            self.line.nested += substitutions(text)

    def values(self, node: Node, state: KnownState, *, quoted: bool = False) -> Values:
        """Return what a word may be."""
        found = literal(node)
        if found is not None:
            return (found,)
        values = self._put_together(node, state, quoted=quoted)
        self.spend(sum(len(word.text or word.guess) for word in values))
        return values

    def _put_together(self, node: Node, state: KnownState, *, quoted: bool) -> Values:
        if node.type == "concatenation":
            bare = "".join(text_of(child) if child.type in {"word", "number"} else "x" for child in node.children)
            return joined([self.values(child, state, quoted=quoted) for child in node.children], bare)
        if node.type == "string":
            return joined(list(self._in_quotes(node, state)))
        self.line.plain = False
        if node.type in {"simple_expansion", "expansion"}:
            return self._variable(node, state, quoted=quoted)
        if node.type == "arithmetic_expansion":
            return self._sum(node, state)
        return self._substitution(node, state, quoted=quoted)

    def _in_quotes(self, node: Node, state: KnownState) -> Iterator[Values]:
        """The parts of a text in double quotes; the parser takes the blanks before an expansion for its own."""
        source = node.text or b""
        end = node.start_byte
        for child in node.children:
            text = text_of(child)
            blanks = source[end - node.start_byte : child.start_byte - node.start_byte].decode(errors="replace")
            end = child.end_byte
            if child.type in EXPANSION_NODES:
                blanks += text[: len(text) - len(text.lstrip())]
                yield (Word(text=blanks),)
                yield self.values(child, state, quoted=True)
            elif child.type == '"' and not blanks.strip():
                yield (Word(text=blanks + text[:-1]),)
            elif child.type == "string_content" and not re.search(r"(?<!\\)(?:\\\\)*[$`]", text):
                yield (Word(text=blanks + unquoted(text)),)
            else:
                yield (UNKNOWN,)

    def _variable(self, node: Node, state: KnownState, *, quoted: bool) -> Values:
        text = text_of(node).lstrip()
        simple, cut = SIMPLE_EXPANSION.fullmatch(text), CUT_EXPANSION.fullmatch(text)
        values: Values = (UNKNOWN,)
        if simple:
            values = value_of(simple["name"], state, quoted=quoted)
        elif cut and (cut["name"] or cut["measured"]) in state.scope:
            values = (SOME_NUMBER,) if cut["measured"] else (SOME_TEXT if quoted else UNKNOWN,)
        self.named_variables |= {text_of(child) for child in node.children if child.type == "variable_name"} - set(
            "0123456789"
        )
        if UNKNOWN in values:
            self.surprise(f"it has a {node.type.replace('_', ' ')}", barred=re.match(r"\$\{!|.*@", text) is not None)
            if not simple:
                self.line.nested += substitutions(text)
                instead = INSTEAD.search(text)
                values = (Word(text=None, guess=instead["word"].strip("\"'")),) if instead else values
                self.in_order([child for child in node.children if child.is_named], state, fed=False)
        return values

    def _sum(self, node: Node, state: KnownState) -> Values:
        found = ARITHMETIC.fullmatch(text_of(node).lstrip())
        names = set(re.findall(r"[A-Za-z_]\w*", found["sum"])) if found else set[str]()
        self.named_variables |= names
        if found and all(all(map(is_number, state.scope.get(name, (UNKNOWN,)))) for name in names):
            return (SOME_NUMBER,)
        self.surprise("it has an arithmetic expansion")
        self.in_order([child for child in node.children if child.is_named], state, fed=False)
        return (UNKNOWN,)

    def _substitution(self, node: Node, state: KnownState, *, quoted: bool) -> Values:
        text = text_of(node).lstrip()
        if node.type == "brace_expression" and (found := RANGE.fullmatch(text)):
            self._braced *= abs(int(found["last"]) - int(found["first"])) + 1
            if self._braced > MAX_BRACED:
                self.surprise("its braces make too many words", barred=True)
            return (SOME_NUMBER,)
        started = len(self.line.commands)
        self.in_order(node.children, state, fed=False)
        if node.type == "process_substitution" and text.startswith("<("):
            return (Word(text="/dev/null"),)
        guess = self._printed(self.line.commands[started:])
        if node.type == "translated_string":
            guess = text[2:-1]
        if node.type == "command_substitution" and text.startswith("$("):
            own = [" ".join(command.argv) for command in self.line.commands[started:]]
            plain = len(own) == 1 and own[0] in PLAIN_OUTPUT
            if quoted or plain:
                return (Word(text=None, harmless=True, plain=plain, guess=guess),)
        self.surprise(f"it has a {node.type.replace('_', ' ')}")
        return (Word(text=None, guess=guess),)

    @staticmethod
    def _printed(commands: Sequence[ShellCommand]) -> str:
        """Return what a substitution probably stands for, if it only prints or looks up its words."""
        if len(commands) != 1 or commands[0].argv[:1] not in REPEATING:
            return ""
        words = [word.guess if word.text is None else word.text for word in commands[0].words[1:]]
        return " ".join(decoded(word) for word in words if not word.startswith("-") and "%" not in word)
