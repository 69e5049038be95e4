"""Shell lines as a syntax tree sees them: every command wherever it stands, and what makes a line hard to foresee."""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Tree

HARMLESS_NODES = frozenset({
    "program",
    "list",
    "pipeline",
    "subshell",
    "compound_statement",
    "negated_command",
    "comment",
})
LITERAL_NODES = frozenset({"word", "number", "string", "raw_string", "ansi_c_string", "concatenation"})
SUBSTITUTIONS = frozenset({
    "simple_expansion",
    "expansion",
    "command_substitution",
    "process_substitution",
    "arithmetic_expansion",
    "brace_expression",
    "translated_string",
})
PLAIN_TOKENS = frozenset({
    "&&",
    "||",
    ";",
    "|",
    "|&",
    "\n",
    "(",
    ")",
    "{",
    "}",
    "!",
    '"',
    ">",
    ">>",
    ">&",
    "&>",
    "&>>",
    "<",
})
STEERING_NODES = frozenset({"function_definition", "declaration_command", "unset_command"})
LOCAL_NAME = re.compile(r"(?!.*_proxy$|npm_|auto_resume$|histchars$)[a-z][a-z0-9_]{0,30}|_")
"""Variables that a line may set: none that a program or the shell heeds."""
HARMLESS_VARIABLES = frozenset({
    "BASH_VERSION", "EUID", "HOME", "HOSTNAME", "LANG", "LINENO", "LOGNAME", "OLDPWD", "PATH", "PPID", "PWD", "RANDOM",
    "SECONDS", "SHELL", "TERM", "UID", "USER", "VIRTUAL_ENV", *map(str, range(10)),
})  # fmt: skip
"""Variables of the surroundings that anybody may see."""
INPUT_REDIRECTS = frozenset({"heredoc_redirect", "herestring_redirect"})
READ_REDIRECT = re.compile(r"0?<\s*(?P<word>[^\s<>&|;()$`*?\[\]{}~\\'\"]+)")
PLAIN_TEST = re.compile(r"\[\s+(?P<words>[\w./ =!'\"@:,+-]+?)\s+\]")
HARMLESS_REDIRECT = re.compile(r"(?:[12]?>&[12]|(?:[12]|&)?>>?\s*/dev/null)")
PATTERN = re.compile(r"(?<!\\)(?:\\\\)*[*?\[{]|^~|[=:]~")
INVISIBLE = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})
ODD_CHARACTER = re.compile(r"[^\S \t\n]|[\x00-\x08\x0e-\x1f\x7f]|\\\s")
"""The last part: around a backslash before white space the parser and bash part ways."""


MAX_LINE = 32_768
MAX_NODES = 16_000
MAX_NESTING = 100
"""Beyond these a line is not read: what nobody could read at a glance is asked about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Word:
    """A word: its text after quotes are removed, None if only running tells. ``pattern``: the shell may expand it."""

    text: str | None
    pattern: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellCommand:
    """A simple command. ``fed``: something is piped or redirected into it."""

    words: tuple[Word, ...]
    fed: bool = False

    @property
    def argv(self) -> tuple[str, ...]:
        """The words up to the first that is not known."""
        known: list[str] = []
        for word in self.words:
            if word.text is None:
                break
            known.append(word.text)
        return tuple(known)


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellLine:
    """All commands of a line, and in words why it may do more than they say.

    ``inputs`` are files it reads by ``<``; ``fed_texts`` what here-documents and here-strings hold, which a shell would
    run. ``opaque`` says why not all of it was read, or nothing. ``barred``: not even where nothing can be written does it
    only read, or nobody can say what it would run.
    """

    commands: tuple[ShellCommand, ...]
    surprises: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    fed_texts: tuple[str, ...] = ()
    opaque: str = ""
    barred: bool = False


@lru_cache(maxsize=256)
def parse_line(line: str) -> ShellLine:
    """Parse a shell line; what can't be understood is a surprise, never an error."""
    if len(line) > MAX_LINE:
        return _unread(f"it is longer than {MAX_LINE:,} characters, which are not looked through".replace(",", " "))
    source = line.encode(errors="surrogatepass")
    tree = _parser().parse(source)
    if tree.root_node.descendant_count > MAX_NODES or _nests_deeply(tree):
        return _unread("it holds more than can be looked through")
    reader = _Reader()
    if tree.root_node.has_error:
        reader.surprise("it does not parse as shell", barred=True)
    if ODD_CHARACTER.search(line) or _has_invisible(line):
        reader.surprise("it holds unusual characters", barred=True)
    reader.walk(tree.root_node, fed=False)
    if tree.root_node.has_error:
        reader.commands += _rough_commands(line)
    return ShellLine(
        commands=tuple(reader.commands),
        surprises=tuple(dict.fromkeys(reader.surprises)),
        inputs=tuple(reader.inputs),
        fed_texts=tuple(reader.fed_texts),
        barred=reader.barred or bool(reader.named_variables - reader.set_variables - HARMLESS_VARIABLES),
    )


def _unread(why: str) -> ShellLine:
    return ShellLine(commands=(), surprises=(why,), opaque=why)


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
    """Whether a character that nobody sees, or that turns the text around, is in it."""
    if line.isascii():
        return False
    return any(unicodedata.category(char) in INVISIBLE for char in line if not char.isascii())


@lru_cache(maxsize=1)
def _parser() -> Parser:
    import tree_sitter_bash  # noqa: PLC0415  a native library, needed only once a command is judged
    from tree_sitter import Language, Parser  # noqa: PLC0415  a native library, needed only once a command is judged

    return Parser(Language(tree_sitter_bash.language()))


class _Reader:
    """Collects commands and surprises while it walks a tree."""

    def __init__(self) -> None:
        self.commands: list[ShellCommand] = []
        self.surprises: list[str] = []
        self.inputs: list[str] = []
        self.fed_texts: list[str] = []
        self.barred = False
        self.named_variables: set[str] = set()
        self.set_variables: set[str] = set()

    def surprise(self, why: str, *, barred: bool = False) -> None:
        """Note why the line may do more than its words say; ``barred``: in a read-only sandbox, too."""
        self.surprises.append(why)
        self.barred = self.barred or barred

    def walk(self, node: Node, *, fed: bool) -> None:
        """Take ``node`` and everything below it."""
        pending = [(node, fed)]
        while pending:
            current, current_fed = pending.pop()
            if self._take_whole(current, fed=current_fed):
                continue
            self._take(current, fed=current_fed)
            pending.extend(reversed([(child, _is_fed(current, child, fed=current_fed)) for child in current.children]))

    def _take_whole(self, node: Node, *, fed: bool) -> bool:
        """Take what is plain as it stands: reading a file by ``<``, and ``[ -f x ]``, which is ``test -f x``."""
        if node.type == "file_redirect" and (read := READ_REDIRECT.fullmatch(_text(node))):
            self.inputs.append(read["word"])
            return True
        if node.type == "test_command" and (test := PLAIN_TEST.fullmatch(_text(node))):
            try:
                words = shlex.split(test["words"])
            except ValueError:
                return False
            self.commands.append(ShellCommand(words=tuple(Word(text=word) for word in ("test", *words)), fed=fed))
            return True
        return False

    def _take(self, node: Node, *, fed: bool) -> None:
        kind = node.type
        if kind == "heredoc_body":
            self.fed_texts.append(_text(node))
        elif kind == "herestring_redirect":
            self.fed_texts.extend(word.text for child in node.named_children if (word := _word(child)).text)
        self._variables(node)
        if kind == "command":
            self._command(node, fed=fed)
        elif kind == "file_redirect":
            if not HARMLESS_REDIRECT.fullmatch(_text(node)):
                writes = re.match(r"0?<(?![>&])", _text(node)) is None
                self.surprise("it redirects input or output", barred=writes)
        elif kind == "&":
            self.surprise("it starts something in the background", barred=True)
        elif kind in SUBSTITUTIONS or kind in INPUT_REDIRECTS:
            self.surprise(f"it has a {kind.replace('_', ' ')}")
        elif not node.is_named and kind not in PLAIN_TOKENS:
            self.surprise(f"it has {kind!r} where that is unusual")
        elif node.is_named and not self._expected(node):
            self.surprise(f"it has a {kind.replace('_', ' ')}", barred=kind in STEERING_NODES)

    def _variables(self, node: Node) -> None:
        """Note the variables that a node sets or names."""
        kind = node.type
        if kind in {"variable_assignment", "for_statement"}:
            names = [_text(child) for child in node.children if child.type == "variable_name"]
            self.set_variables.update(names)
            self.barred = self.barred or not all(map(LOCAL_NAME.fullmatch, names))
        elif kind in {"simple_expansion", "expansion"}:
            self.named_variables |= {_text(child) for child in node.children if child.type == "variable_name"}
            self.barred = self.barred or (kind == "expansion" and re.match(r"\$\{!|.*@", _text(node)) is not None)

    @staticmethod
    def _expected(node: Node) -> bool:
        """Whether a node is one of the few whose meaning is plain."""
        kind = node.type
        if kind in HARMLESS_NODES or kind in LITERAL_NODES:
            return True
        return kind in {"command_name", "redirected_statement", "string_content", "file_descriptor"}

    def _command(self, node: Node, *, fed: bool) -> None:
        words: list[Word] = []
        for child in node.children:
            if child.type == "command_name":
                words.append(_word(child.children[0]) if child.children else Word(text=None))
            elif child.type in LITERAL_NODES or child.type in SUBSTITUTIONS:
                words.append(_word(child))
            elif child.type == "herestring_redirect":
                fed = True
        command = ShellCommand(words=tuple(words), fed=fed)
        self.commands.append(command)
        if len(command.argv) == len(words) and not _same_words(_text(node), command.argv):
            self.surprise("its words can be read in two ways", barred=True)
        argv = command.argv
        if argv[:1] == ("read",):
            self.set_variables.update(word for word in argv[1:] if LOCAL_NAME.fullmatch(word))


def _is_fed(parent: Node, child: Node, *, fed: bool) -> bool:
    """Whether what stands in ``child`` reads a pipe or a file instead of the caller's input."""
    if parent.type == "pipeline":
        return fed or child.start_byte > parent.children[0].start_byte
    if parent.type == "redirected_statement":
        return fed or any(
            redirect.type in INPUT_REDIRECTS or re.match(r"0?<(?!\s*/dev/)", _text(redirect))
            for redirect in parent.children[1:]
        )
    return fed or parent.type == "heredoc_redirect"


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")


def _same_words(source: str, argv: Iterable[str]) -> bool:
    """A second opinion on where words begin and end."""
    try:
        return tuple(shlex.split(source)) == tuple(argv)
    except ValueError:
        return False


def _word(node: Node) -> Word:
    text = _text(node)
    if node.type in {"word", "number"}:
        return Word(text=_unescaped(text), pattern=PATTERN.search(text) is not None)
    if node.type == "raw_string":
        return Word(text=text[1:-1])
    if node.type == "ansi_c_string":
        return Word(text=None if "\\" in text else text[2:-1])
    if node.type == "string":
        return Word(text=_double_quoted(node, text))
    if node.type == "concatenation":
        parts = [_word(child) for child in node.children]
        known = [part.text for part in parts if part.text is not None]
        bare = "".join(_text(child) if child.type in {"word", "number"} else "x" for child in node.children)
        pattern = any(part.pattern for part in parts) or PATTERN.search(bare) is not None
        return Word(text="".join(known) if len(known) == len(parts) else None, pattern=pattern)
    return Word(text=None)


def _double_quoted(node: Node, text: str) -> str | None:
    plain = all(child.type in {"string_content", '"'} for child in node.children)
    body = text[1:-1]
    if not plain or re.search(r"(?<!\\)(?:\\\\)*[$`]", body):
        return None
    return re.sub(r'\\([\\"$`])', r"\1", body.replace("\\\n", ""))


def _unescaped(text: str) -> str:
    return re.sub(r"\\(.)", r"\1", text.replace("\\\n", ""), flags=re.DOTALL)
