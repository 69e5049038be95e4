"""Models the words and commands of a shell line, and the values they may have, before the line runs."""

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
SPLIT_OR_EXPANDED = re.compile(r"[\s*?\[\\]|^$")
"""Text that the shell splits or expands as a pattern when an unquoted variable holds it."""
LOCAL_NAME = re.compile(r"(?!.*_proxy$|npm_|auto_resume$|histchars$)[a-z][a-z0-9_]{0,30}|_")
"""Names of variables that a line may set, because they mean nothing to programs and shells."""
PUBLIC_VARIABLES = frozenset({
    "BASH_VERSION", "EUID", "HOME", "HOSTNAME", "LANG", "LINENO", "LOGNAME", "OLDPWD", "PATH", "PPID", "PWD", "RANDOM",
    "SECONDS", "SHELL", "TERM", "UID", "USER", "VIRTUAL_ENV",
})  # fmt: skip
"""Variables of the environment whose values are no secret."""
NUMERIC_VARIABLES = frozenset({"?", "#", "$", "!"})
MAX_CHARACTER = 0x10FFFF
RUNS_ITS_ARGUMENTS = re.compile(r"(?:^|[;&|({\n]|\b(?:exec|eval|command|env|then|do|sudo))[^\S\n]*+\"?\$\{?[@*0-9]")
"""A script that runs its own arguments."""
MAX_READINGS = 32
"""Maximum number of readings of one command, one for each combination of the values of its variables."""
MAX_TEXT = 32_768
"""Maximum length of a value that is tracked, in characters."""
JUDGING_SECONDS = 1.0
"""Maximum CPU time for one part of a judgement, in seconds."""
TOO_COMPLEX = "it is too complex to check"


class TooComplexError(Exception):
    """Judging a line would take too much work, so what it does stays unknown."""

    def __init__(self) -> None:
        super().__init__(TOO_COMPLEX)


class Patience(Struct, eq=False):
    """Limits the CPU time of a judgement. Time spent waiting on a busy machine does not count."""

    _deadline: float = 0.0
    _calls: int = 0

    def is_over(self) -> bool:
        """Return whether the time is up.

        Only every 16th call reads the clock, because reading it costs more than a step of the work.
        """
        self._calls += 1
        if self._calls % 16:
            return False
        now = thread_time()
        self._deadline = self._deadline or now + JUDGING_SECONDS
        return now > self._deadline

    def check(self) -> None:
        """Raise TooComplexError if the time is up."""
        if self.is_over():
            raise TooComplexError


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A word of a command.

    Attributes:
        text: The word without its quotes, or None if it is known only at run time.
        pattern: The shell may expand it.
        harmless: An unknown text that is a single word, whatever it holds, and no secret of the environment.
        plain: An unknown text that is harmless even without quotes.
        number: An unknown text that is a number.
        guess: What an unknown text probably is. It is only ever a reason to deny.
    """

    text: str | None
    pattern: bool = False
    harmless: bool = False
    plain: bool = False
    number: bool = False
    guess: str = dataclasses.field(default="", compare=False)

    @property
    def likely(self) -> str:
        """The text of the word, or the guess if that is unknown."""
        return self.guess if self.text is None else self.text


def known(words: Iterable[str | None]) -> tuple[str, ...]:
    """Return the words before the first unknown one."""
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
"""The possible values of a word or a variable."""
Place: TypeAlias = "tuple[str, ...]"
"""The folder a command runs in, as the folders that the line changed to, in order."""
UNKNOWN_STEP = "\0"
HERE: frozenset[Place] = frozenset({()})


class ShellCommand(Struct, frozen=True, kw_only=True):
    """A simple command.

    ``fed`` says that something is piped or redirected into it. ``places`` are the folders it may run in.
    """

    words: tuple[Word, ...]
    fed: bool = False
    places: frozenset[Place] = HERE

    @property
    def argv(self) -> tuple[str, ...]:
        """The words before the first unknown one."""
        return known(word.text for word in self.words)

    @property
    def step(self) -> str:
        """The folder that ``cd`` changes to, or ``UNKNOWN_STEP`` if that is known only at run time."""
        argv = self.argv
        plain = argv[0] == "cd" and len(argv) == len(self.words) == 2 and not self.words[1].pattern
        return argv[1] if plain and not argv[1].startswith("-") else UNKNOWN_STEP


class ShellLine(Struct):
    """The commands of a line, and the reasons why it may do more than they say.

    Attributes:
        commands: All commands, including those inside other constructs.
        surprises: Why the line may do more than its commands say, in words for the user.
        inputs: Files that the line reads with ``<``.
        fed_texts: Contents of here-documents and here-strings, which a shell would run.
        opaque: Why the line was not read fully, or blank.
        barred: The line may not run in a read-only sandbox unasked: even there it might do more than read, or what it
            would run is unknown.
        plain: The line has no variables, substitutions, loops or conditions.
        nested: Texts of substitutions that a word or a variable carries.
        assigned: Names of variables with the values they are set to.
        passing: Those of ``functions`` that run their arguments.
        functions: Names of the functions that the line defines.
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
    """The knowledge at one point of a line: the variables it has set, and the folders it may be in.

    No places means that the line does not get to this point.
    """

    scope: Mapping[str, Values] = field(default_factory=dict[str, Values])
    places: frozenset[Place] = HERE

    def with_value(self, name: str, values: Values) -> KnownState:
        """Return the state after a variable is set."""
        return KnownState(scope={**self.scope, name: values}, places=self.places)

    def without(self, changed: Mapping[str, bool]) -> KnownState:
        """Return the state after variables are set to unknown values.

        ``changed`` maps each name to whether its new value is certain to be a number.
        """
        scope = dict(self.scope)
        for name in changed.keys() & scope.keys():
            number = changed[name] and all(map(is_number, scope[name]))
            scope[name] = (SOME_NUMBER if number else SOME_TEXT,)
        return KnownState(scope=scope, places=self.places)


def merged(states: Sequence[KnownState]) -> KnownState:
    """Return what is known after one of several branches. Branches without places end the line, so they don't count."""
    reached = [state for state in states if state.places] or list(states)
    common = [name for name in reached[0].scope if all(name in state.scope for state in reached)]
    scope: dict[str, Values] = {}
    for name in common:
        values = tuple(dict.fromkeys(word for state in reached for word in state.scope[name]))
        scope[name] = values if len(values) <= MAX_READINGS else (SOME_TEXT,)
    return KnownState(scope=scope, places=frozenset(place for state in reached for place in state.places))


def is_number(word: Word) -> bool:
    """Return whether a word is certain to be a number, even if its value is unknown."""
    return word.number or (word.text is not None and re.fullmatch(r"-?\d+", word.text) is not None)


def text_of(node: Node) -> str:
    """Return the source text of a node."""
    return (node.text or b"").decode(errors="replace")


def literal(node: Node) -> Word | None:
    """Return the word of a node without expansions, or None if it has some."""
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
    """Return the text between double quotes as the shell reads it."""
    return re.sub(r'\\([\\"$`])', r"\1", body.replace("\\\n", ""))


def _unescaped(text: str) -> str:
    return QUOTED.sub(r"\1", text.replace("\\\n", ""))


ESCAPES = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|0?([0-7]{1,3})|(.))", re.DOTALL)
ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "a": "", "e": "", "E": "", "c": ""}


def decoded(text: str) -> str:
    r"""Resolve escapes such as ``\x76``, as in ``$'...'`` and for ``printf``, precisely enough for a guess."""

    def character(found: re.Match[str]) -> str:
        *hexadecimal, octal, letter = found.groups()
        number = next((int(digits, 16) for digits in hexadecimal if digits), int(octal, 8) if octal else None)
        if number is not None:
            return chr(number) if number <= MAX_CHARACTER else ""
        return ESCAPED.get(letter, letter)

    return ESCAPES.sub(character, text)


def substitutions(text: str) -> Iterator[str]:
    """Yield the contents of ``$(...)`` and of backticks, whatever is around them, each including nested ones."""
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
    """Return whether the shell may replace an unquoted text by other words."""
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
    """Return the possible values of a word from those of its parts. ``bare`` is its source without the quoted parts."""
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
    """Return the possible values of ``$name``."""
    if name in NUMERIC_VARIABLES:
        return (SOME_NUMBER,)
    if name in state.scope and name != "_":  # the shell sets ``$_`` itself
        return tuple(dict.fromkeys(_expanded(word, quoted=quoted) for word in state.scope[name]))
    if name in {"SHELL", "BASH"}:
        return (A_SHELL,)
    return (SOME_WORD,) if name in PUBLIC_VARIABLES else (Word(text=None, guess="sh" if name == "0" else ""),)


def _expanded(word: Word, *, quoted: bool) -> Word:
    if quoted:
        return word
    if word.text is None:
        return word if word.plain else Word(text=None, guess=word.guess)
    if word.pattern:
        return UNKNOWN if "/" in word.text else SOME_WORD
    return UNKNOWN if SPLIT_OR_EXPANDED.search(word.text) else word


ARITHMETIC = re.compile(r"\$\(\((?P<sum>[\w\s+\-*/%()$]+)\)\)")
SIMPLE_EXPANSION = re.compile(r"\$\{?(?P<name>\w+|[?#$!])\}?")
TRIMMED_EXPANSION = re.compile(
    r"\$\{(?P<name>[a-z_][a-z0-9_]*)(?:%%?|##?)[\w.*/-]+\}|\$\{#(?P<measured>[a-z_][a-z0-9_]*)\}"
)
RANGE = re.compile(r"\{(?P<first>-?\d{1,6})\.\.(?P<last>-?\d{1,6})\}")
DEFAULT_VALUE = re.compile(r"^\$\{\w+:?[-=+](?P<word>.*)\}$", re.DOTALL)
ECHOING = frozenset({("echo",), ("printf",), ("which",), ("command",), ("type",), ("readlink",), ("realpath",)})
"""Programs whose output is probably their words, or what these stand for."""
PLAIN_OUTPUT = frozenset({
    "git rev-parse HEAD", "git rev-parse --short HEAD", "git rev-parse --abbrev-ref HEAD", "git branch --show-current",
    "whoami", "nproc", "id -u", "id -un", "id -g", "uname", "uname -s", "uname -m", "uname -r",
})  # fmt: skip
"""Commands that print a single word which the shell won't split or expand."""
MAX_WORK = 1_000_000
"""Maximum work for one line: the sum of the nodes visited and the characters of known values."""
MAX_BRACED = 10_000
"""Maximum product of the lengths of all ranges in braces, such as ``{1..100}``, of a line."""
MAX_VARIABLES = 200
"""Maximum number of variables a line may set."""


class Expansions(ABC):
    """Works out the values of words. The subclass that walks the line notes the commands in substitutions."""

    def __init__(self) -> None:
        self.line = ShellLine()
        self.named_variables: set[str] = set()
        self.set_variables: set[str] = set()
        self._work = MAX_WORK
        self._braced = 1

    @property
    def reads_environment(self) -> bool:
        """True if the line names variables that it does not set and whose values may be secret."""
        return bool(self.named_variables - self.set_variables - PUBLIC_VARIABLES)

    def surprise(self, why: str, *, barred: bool = False) -> None:
        """Note why the line may do more than its words say. ``barred`` says it may in a read-only sandbox as well."""
        if why not in self.line.surprises:
            self.line.surprises.append(why)
        self.line.barred = self.line.barred or barred

    def spend(self, work: int) -> None:
        """Count ``work`` against the limit of the line.

        Raises:
            TooComplexError: the line exceeds ``MAX_WORK`` or ``MAX_VARIABLES``.
        """
        self._work -= work
        if self._work < 0 or len(self.set_variables) > MAX_VARIABLES:
            raise TooComplexError

    @abstractmethod
    def in_order(self, nodes: Iterable[Node], state: KnownState, *, fed: bool) -> KnownState:
        """Walk nodes in order and return the state after them."""

    def note_values(self, node: Node, names: Sequence[str], values: Values) -> None:
        """Note the values a variable is set to, even if they are only guesses, because they may be run later."""
        known = [word.likely for word in values]
        array = next((child for child in node.children if child.type == "array"), None)
        elements = [literal(part) for part in array.named_children] if array is not None else []
        known += [word.likely for word in elements if word is not None]
        for text in filter(None, known):
            self.line.assigned.append(("".join(names), text))
            self.line.nested += substitutions(text)

    def note_definition(self, node: Node) -> None:
        """Note which functions run their arguments, and the substitutions in a declaration."""
        text = text_of(node)
        if node.type == "function_definition":
            self.line.functions.update(text_of(child) for child in node.children if child.type == "word")
            if RUNS_ITS_ARGUMENTS.search(text):
                self.line.passing.update(text_of(child) for child in node.children if child.type == "word")
        else:
            self.line.nested += substitutions(text)

    def values(self, node: Node, state: KnownState, *, quoted: bool = False) -> Values:
        """Return the possible values of a word."""
        found = literal(node)
        if found is not None:
            return (found,)
        values = self._compound_values(node, state, quoted=quoted)
        self.spend(sum(len(word.text or word.guess) for word in values))
        return values

    def _compound_values(self, node: Node, state: KnownState, *, quoted: bool) -> Values:
        if node.type == "concatenation":
            bare = "".join(text_of(child) if child.type in {"word", "number"} else "x" for child in node.children)
            return joined([self.values(child, state, quoted=quoted) for child in node.children], bare)
        if node.type == "string":
            return joined(list(self._in_quotes(node, state)))
        self.line.plain = False
        if node.type in {"simple_expansion", "expansion"}:
            return self._variable(node, state, quoted=quoted)
        if node.type == "arithmetic_expansion":
            return self._arithmetic(node, state)
        return self._substitution(node, state, quoted=quoted)

    def _in_quotes(self, node: Node, state: KnownState) -> Iterator[Values]:
        """Yield the parts of a text in double quotes.

        The parser makes the blanks before an expansion part of the expansion, so they are restored here.
        """
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
        simple, trimmed = SIMPLE_EXPANSION.fullmatch(text), TRIMMED_EXPANSION.fullmatch(text)
        values: Values = (UNKNOWN,)
        if simple:
            values = value_of(simple["name"], state, quoted=quoted)
        elif trimmed and (trimmed["name"] or trimmed["measured"]) in state.scope:
            values = (SOME_NUMBER,) if trimmed["measured"] else (SOME_TEXT if quoted else UNKNOWN,)
        self.named_variables |= {text_of(child) for child in node.children if child.type == "variable_name"} - set(
            "0123456789"
        )
        if UNKNOWN in values:
            self.surprise(f"it has a {node.type.replace('_', ' ')}", barred=re.match(r"\$\{!|.*@", text) is not None)
            if not simple:
                self.line.nested += substitutions(text)
                while default := DEFAULT_VALUE.search(text):
                    text = default["word"].strip("\"'")
                    values = (Word(text=None, guess=text),)
                self.in_order([child for child in node.children if child.is_named], state, fed=False)
        return values

    def _arithmetic(self, node: Node, state: KnownState) -> Values:
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
        """Return the probable output of a substitution that only prints or looks up its words, else ""."""
        if len(commands) != 1 or commands[0].argv[:1] not in ECHOING:
            return ""
        words = (word.likely for word in commands[0].words[1:])
        return " ".join(decoded(word) for word in words if not word.startswith("-") and "%" not in word)
