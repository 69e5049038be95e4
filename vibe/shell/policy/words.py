"""Words and commands of a shell line, the values they may have, and what is known of them before it runs."""

from __future__ import annotations

import dataclasses
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from time import thread_time
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct, field

if TYPE_CHECKING:
    from tree_sitter import Node


LITERAL_NODES = frozenset({"word", "number", "string", "raw_string", "ansi_c_string", "concatenation"})
EXPANSION_NODES = frozenset({
    "simple_expansion", "expansion", "command_substitution", "process_substitution", "arithmetic_expansion",
    "brace_expression", "translated_string",
})  # fmt: skip
SPECIAL = re.compile(r"[*?\[{~]")
PATTERN = re.compile(r"(?<!\\)(?:\\\\)*+[*?\[]|^~|[=:]~")
SEVERAL = re.compile(r",|\.\.")
QUOTED = re.compile(r"\\(.)", re.DOTALL)
SPLITS = re.compile(r"[\s*?\[\\]|^$")
"""Text that the shell splits, or takes for a pattern, where a variable stands without quotes."""
LOCAL_NAME = re.compile(r"(?!.*_proxy$|npm_|auto_resume$|histchars$)[a-z][a-z0-9_]{0,30}|_")
"""Variables that a line may set: none that a program or the shell heeds."""
SHOWN_VARIABLES = frozenset({
    "BASH_VERSION", "EUID", "HOME", "HOSTNAME", "LANG", "LINENO", "LOGNAME", "OLDPWD", "PATH", "PPID", "PWD", "RANDOM",
    "SECONDS", "SHELL", "TERM", "UID", "USER", "VIRTUAL_ENV",
})  # fmt: skip
"""Variables of the environment that are no secret."""
NUMBERS = frozenset({"?", "#", "$", "!"})
MAX_CHARACTER = 0x10FFFF
RUNS_ITS_WORDS = re.compile(r"(?:^|[;&|({\n]|\b(?:exec|eval|command|env|then|do|sudo))[^\S\n]*+\"?\$\{?[@*0-9]")
"""A script that runs what comes after it."""
MAX_READINGS = 32
"""The most readings of one command, by the values its variables may have, that are looked at."""
MAX_TEXT = 32_768
"""The longest value that is followed, in characters."""
JUDGING_SECONDS = 1.0
"""The processor's time that one part of a judgement may take."""
TOO_COMPLEX = "it is too complex to check"


class TooComplexError(Exception):
    """Judging a line would take too much work: what it does can't be told."""

    def __init__(self) -> None:
        super().__init__(TOO_COMPLEX)


class Patience:
    """Ends what takes the processor too long. Waiting for a busy machine does not count."""

    def __init__(self) -> None:
        self._until = 0.0
        self._asked = 0

    def is_over(self) -> bool:
        """Return whether the time is up; most times without a look at the clock, which costs more than a step."""
        self._asked += 1
        if self._asked % 16:
            return False
        now = thread_time()
        self._until = self._until or now + JUDGING_SECONDS
        return now > self._until

    def check(self) -> None:
        """Go on, or raise TooComplexError once the time is up."""
        if self.is_over():
            raise TooComplexError


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A word: its text after quotes are removed, None if only running tells. ``pattern``: the shell may expand it.

    Of what only running tells: ``harmless`` is one word, whatever it holds, and no secret of the environment;
    ``plain`` is so without quotes, too; ``number`` is a number. ``guess`` is what it may well be,
    and only ever a reason to deny.
    """

    text: str | None
    pattern: bool = False
    harmless: bool = False
    plain: bool = False
    number: bool = False
    guess: str = dataclasses.field(default="", compare=False)

    @property
    def likely(self) -> str:
        """Its text, or what it may well be."""
        return self.guess if self.text is None else self.text


def known(words: Iterable[str | None]) -> tuple[str, ...]:
    """The words up to the first that is not known."""
    found: list[str] = []
    for word in words:
        if word is None:
            break
        found.append(word)
    return tuple(found)


UNKNOWN = Word(text=None)
SOME_TEXT = Word(text=None, harmless=True)
SOME_WORD = Word(text=None, harmless=True, plain=True)
A_SHELL = Word(text=None, harmless=True, plain=True, guess="sh")
SOME_NUMBER = Word(text=None, harmless=True, plain=True, number=True)

Values: TypeAlias = "tuple[Word, ...]"
"""The readings of a word or a variable: it is one of these."""
Place: TypeAlias = "tuple[str, ...]"
"""The folder a command runs in: the folders changed to, one after the other."""
UNKNOWN_STEP = "\0"
HERE: frozenset[Place] = frozenset({()})


class ShellCommand(Struct, frozen=True, kw_only=True):
    """A simple command. ``fed``: something is piped or redirected into it. ``places``: where it may run."""

    words: tuple[Word, ...]
    fed: bool = False
    places: frozenset[Place] = HERE

    @property
    def argv(self) -> tuple[str, ...]:
        """The words up to the first that is not known."""
        return known(word.text for word in self.words)

    @property
    def step(self) -> str:
        """The step that ``cd`` takes from a place, or the one that stands for a place known only at run time."""
        argv = self.argv
        plain = argv[0] == "cd" and len(argv) == len(self.words) == 2 and not self.words[1].pattern
        return argv[1] if plain and not argv[1].startswith("-") else UNKNOWN_STEP


class ShellLine(Struct):
    """All commands of a line, and in words why it may do more than they say.

    ``inputs`` are files it reads by ``<``; ``fed_texts`` what here-documents and here-strings hold, which a shell would
    run. ``opaque`` says why not all of it was read, or nothing. ``barred``: not even where nothing can be written does
    it only read, or what it would run can't be told. ``plain``: it has no variables, substitutions, loops or
    conditions.

    Of what it may run by a detour: ``nested`` is text of substitutions that another word or a variable carries,
    ``assigned`` what variables are set to, ``passing`` those of its ``functions`` that run their words.
    """

    commands: list[ShellCommand] = field(default_factory=list[ShellCommand])
    surprises: list[str] = field(default_factory=list[str])
    inputs: list[str] = field(default_factory=list[str])
    fed_texts: list[str] = field(default_factory=list[str])
    opaque: str = ""
    barred: bool = False
    plain: bool = True
    nested: list[str] = field(default_factory=list[str])
    assigned: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    passing: set[str] = field(default_factory=set[str])
    functions: set[str] = field(default_factory=set[str])


class KnownState(Struct, frozen=True, kw_only=True):
    """Knowledge at one point of a line: the variables that the line has set, and the places."""

    scope: Mapping[str, Values] = field(default_factory=dict[str, Values])
    places: frozenset[Place] = HERE

    def with_value(self, name: str, values: Values) -> KnownState:
        """The state after a variable was set."""
        return KnownState(scope={**self.scope, name: values}, places=self.places)

    def without(self, changed: Mapping[str, bool]) -> KnownState:
        """The state where some variables were set to what is not known; True: to a number."""
        scope = dict(self.scope)
        for name in changed.keys() & scope.keys():
            number = changed[name] and all(map(is_number, scope[name]))
            scope[name] = (SOME_NUMBER if number else SOME_TEXT,)
        return KnownState(scope=scope, places=self.places)


def merged(states: Sequence[KnownState]) -> KnownState:
    """Return what is known after one of several ways; a way without a place was never gone."""
    gone = [state for state in states if state.places] or list(states)
    common = [name for name in gone[0].scope if all(name in state.scope for state in gone)]
    scope: dict[str, Values] = {}
    for name in common:
        values = tuple(dict.fromkeys(word for state in gone for word in state.scope[name]))
        scope[name] = values if len(values) <= MAX_READINGS else (SOME_TEXT,)
    return KnownState(scope=scope, places=frozenset(place for state in gone for place in state.places))


def is_number(word: Word) -> bool:
    """Return whether a word is a number, known or not."""
    return word.number or (word.text is not None and re.fullmatch(r"-?\d+", word.text) is not None)


def text_of(node: Node) -> str:
    """The source of a node."""
    return (node.text or b"").decode(errors="replace")


def literal(node: Node) -> Word | None:
    """A word without expansions; None if it has some."""
    text = text_of(node)
    if node.type in {"word", "number", "extglob_pattern", "regex"}:
        return Word(text=_unescaped(text), pattern=is_pattern(text))
    if node.type == "raw_string":
        return Word(text=text[1:-1])
    if node.type == "ansi_c_string":
        return Word(text=None, guess=decoded(text[2:-1])) if "\\" in text else Word(text=text[2:-1])
    if node.type == "string" and all(child.type in {"string_content", '"'} for child in node.children):
        body = text[1:-1]
        return UNKNOWN if re.search(r"(?<!\\)(?:\\\\)*[$`]", body) else Word(text=unquoted(body))
    return None


def unquoted(body: str) -> str:
    """Return what stands between double quotes, as the shell takes it."""
    return re.sub(r'\\([\\"$`])', r"\1", body.replace("\\\n", ""))


def _unescaped(text: str) -> str:
    return QUOTED.sub(r"\1", text.replace("\\\n", ""))


ESCAPES = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|0?([0-7]{1,3})|(.))", re.DOTALL)
ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "a": "", "e": "", "E": "", "c": ""}


def decoded(text: str) -> str:
    r"""Return what escapes such as ``\x76`` stand for, in ``$'...'`` and for ``printf``; good enough for a guess."""

    def one(found: re.Match[str]) -> str:
        *hexadecimal, octal, letter = found.groups()
        number = next((int(digits, 16) for digits in hexadecimal if digits), int(octal, 8) if octal else None)
        if number is not None:
            return chr(number) if number <= MAX_CHARACTER else ""
        return ESCAPED.get(letter, letter)

    return ESCAPES.sub(one, text)


def substitutions(text: str) -> Iterator[str]:
    """Yield what stands in ``$(...)`` and between backticks, whatever is around it, each with what is within it."""
    start, depth = -1, 0
    for found in re.finditer(r"\$?\(|\)", text) if "$(" in text else ():
        if start < 0:
            start, depth = (found.end(), 1) if found[0] == "$(" else (-1, 0)
        else:
            depth += -1 if found[0] == ")" else 1
            if depth == 0:
                yield text[start : found.start()]
                start = -1
    if "`" in text:
        yield from text.split("`")[1::2]


def is_pattern(text: str) -> bool:
    """Return whether the shell may put other words in the place of a text that stands without quotes."""
    if not SPECIAL.search(text):
        return False
    if PATTERN.search(text):
        return True
    if "{" not in text or "{" not in QUOTED.sub("", text):
        return False
    inside = text.partition("{")[2]
    several = SEVERAL.search(inside)
    return several is not None and "}" in inside[several.end() :]


def joined(parts: Sequence[Values], bare: str = "") -> Values:
    """Parts of a word as one, in every way they may be read. ``bare``: its source, all that is quoted left out."""
    if sum(max((len(word.text or word.guess) for word in part), default=0) for part in parts) > MAX_TEXT:
        return (UNKNOWN,)
    readings: list[Word] = []
    for count, reading in enumerate(product(*parts)):
        if count >= MAX_READINGS:
            return (UNKNOWN,)
        pattern = any(part.pattern for part in reading) or is_pattern(bare)
        texts = [part.text for part in reading if part.text is not None]
        if len(texts) == len(reading):
            readings.append(Word(text="".join(texts), pattern=pattern))
        else:
            harmless = not pattern and all(part.harmless for part in reading if part.text is None)
            guess = "".join(part.likely for part in reading)
            readings.append(Word(text=None, harmless=harmless, plain=harmless, guess=guess))
    return tuple(dict.fromkeys(readings))


def value_of(name: str, state: KnownState, *, quoted: bool) -> Values:
    """Return what ``$name`` stands for."""
    if name in NUMBERS:
        return (SOME_NUMBER,)
    if name in state.scope and name != "_":  # which the shell sets itself
        return tuple(dict.fromkeys(_expanded(word, quoted=quoted) for word in state.scope[name]))
    if name in {"SHELL", "BASH"}:
        return (A_SHELL,)
    return (SOME_WORD,) if name in SHOWN_VARIABLES else (Word(text=None, guess="sh" if name == "0" else ""),)


def _expanded(word: Word, *, quoted: bool) -> Word:
    if quoted:
        return word
    if word.text is None:
        return word if word.plain else Word(text=None, guess=word.guess)
    if word.pattern:
        return UNKNOWN if "/" in word.text else SOME_WORD
    return UNKNOWN if SPLITS.search(word.text) else word


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
        known = [word.likely for word in values]
        array = next((child for child in node.children if child.type == "array"), None)
        elements = [literal(part) for part in array.named_children] if array is not None else []
        known += [word.likely for word in elements if word is not None]
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
                while instead := INSTEAD.search(text):
                    text = instead["word"].strip("\"'")
                    values = (Word(text=None, guess=text),)
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
        words = (word.likely for word in commands[0].words[1:])
        return " ".join(decoded(word) for word in words if not word.startswith("-") and "%" not in word)
