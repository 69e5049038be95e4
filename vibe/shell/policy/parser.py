"""Parses shell lines: finds every command, however deep, and whatever makes the line's effect hard to foresee.

Syntax that isn't understood is noted as a surprise, and so are the commands in it.
"""

from __future__ import annotations

import re
import shlex
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import islice, product
from time import thread_time
from typing import TYPE_CHECKING

from vibe.shell.policy.words import (
    EXPANSION_NODES,
    LITERAL_NODES,
    LOCAL_NAME,
    MAX_READINGS,
    SOME_TEXT,
    TOO_COMPLEX,
    UNKNOWN,
    UNKNOWN_STEP,
    Expansions,
    KnownState,
    Place,
    ShellCommand,
    ShellLine,
    TooComplexError,
    Values,
    Word,
    is_number,
    merged,
    substitutions,
    text_of,
)

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Tree

SEQUENCES = frozenset({
    "program", "compound_statement", "do_group", "negated_command", "else_clause", "variable_assignments", "ERROR",
})  # fmt: skip
SUBSHELLS = frozenset({"subshell", "command_substitution", "process_substitution"})
"""Nodes that run in a shell of their own, so variables and the folder set in them end with them."""
PLAIN_TOKENS = frozenset({
    "&&", "||", ";", "|", "|&", "\n", "(", ")", "{", "}", "!", '"', ">", ">>", ">&", "&>", "&>>", "<", "$(", "<(", "[",
    "]", "[[", "]]", ";;", "=", "in", "if", "then", "elif", "else", "fi", "while", "until", "do", "done", "for", "case",
    "esac"})  # fmt: skip
DEFINITION_NODES = frozenset({"function_definition", "declaration_command", "unset_command"})
INPUT_REDIRECTS = frozenset({"heredoc_redirect", "herestring_redirect"})
READ_REDIRECT = re.compile(r"0?<\s*(?P<word>[^\s<>&|;()$`*?\[\]{}~\\'\"]+)")
PLAIN_TEST = re.compile(r"\[\s(?P<words>[\w./ =!'\"@:,+-]+)\s\]")
HARMLESS_REDIRECT = re.compile(r"(?:[12]?>&[12]|(?:[12]|&)?>>?\s*/dev/null)")
FILE_TESTS = frozenset(["-e", "-f", "-d", "-s", "-r", "-w", "-x", "-L", "-h", "-nt", "-ot", "-ef"])
TEXT_TESTS = frozenset(["-n", "-z", "=", "==", "!=", "=~", "<", ">"])
NUMBER_TESTS = frozenset(["-eq", "-ne", "-lt", "-le", "-gt", "-ge"])
MAX_PLACES = 8
CHANGES_FOLDER = frozenset({"cd", "popd", "pushd"})


class Flow(Expansions):
    """Walks the tree of a line, noting its commands and surprises in ``line``.

    The method ``on_KIND`` walks nodes of that kind and returns the state after them.
    """

    # --- control flow ---

    def walk(self, node: Node, state: KnownState, *, fed: bool) -> KnownState:
        """Walk a node and return the state after it."""
        kind = node.type
        if kind in SEQUENCES:
            if kind == "ERROR":
                self.surprise("it is not valid shell syntax", barred=True)
            return self.in_order(node.children, state, fed=fed)
        if kind in SUBSHELLS:
            self.in_order(node.children, state, fed=fed)
            return state
        self.line.plain = self.line.plain and kind not in CONSTRUCTS
        return getattr(self, f"on_{kind}", self._other)(node, state, fed=fed)

    def in_order(self, nodes: Iterable[Node], state: KnownState, *, fed: bool) -> KnownState:
        """Walk nodes in order and return the state after them."""
        for node in nodes:
            state = self.walk(node, state, fed=fed)
            if state.scope:
                self.spend(len(state.scope))
        return state

    def on_list(self, node: Node, state: KnownState, *, fed: bool) -> KnownState:
        """``A && B`` or ``A || B``: the second part may not run."""
        left, *rest = node.children
        before = self.walk(left, state, fed=fed)
        return merged([before, self.in_order(rest, before, fed=fed)])

    def on_pipeline(self, node: Node, state: KnownState, *, fed: bool) -> KnownState:
        """``A | B``: each part runs in a shell of its own."""
        for index, child in enumerate(node.children):
            self.walk(child, state, fed=fed or index > 0)
        return state

    def on_if_statement(self, node: Node, state: KnownState, *, fed: bool) -> KnownState:
        """A condition: any of the branches may run."""
        tested, branches = self._branch(node, state, fed=fed)
        return merged([*branches, tested] if node.children[-2].type != "else_clause" else branches)

    def _branch(self, node: Node, state: KnownState, *, fed: bool) -> tuple[KnownState, list[KnownState]]:
        """Return the state after the condition failed, and the states after each of the branches."""
        then = next((index for index, child in enumerate(node.children) if child.type == "then"), len(node.children))
        rest = node.children[then:]
        tested = self.in_order(node.children[:then], state, fed=fed)
        clauses = [child for child in rest if child.type in {"elif_clause", "else_clause"}]
        branches = [self.in_order([child for child in rest if child not in clauses], tested, fed=fed)]
        for clause in clauses:
            if clause.type == "elif_clause":
                tested, inner = self._branch(clause, tested, fed=fed)
                branches += inner
            else:
                branches.append(self.walk(clause, tested, fed=fed))
        return tested, branches

    def on_while_statement(self, node: Node, state: KnownState, *, fed: bool) -> KnownState:
        """A loop that runs as often as its condition says, or not at all."""
        changed = self._assigned(node)
        before = state.without(changed)
        body = [child for child in node.children if child.type == "do_group"]
        started = len(self.line.commands)
        tested = self.in_order([child for child in node.children if child not in body], before, fed=fed)
        condition = "".join(text_of(child) for child in node.children if child not in body)
        reads = any(command.argv[:1] == ("read",) for command in self.line.commands[started:])
        set_in_body = {name for child in body for name in self._assigned(child)}
        if not reads and set_in_body.isdisjoint(re.findall(r"[A-Za-z_]\w*", condition)):
            self.surprise("it may never end", barred=True)
        after = tested.without(changed)
        return KnownState(scope=after.scope, places=self._loop(body, tested, fed=fed))

    def on_for_statement(self, node: Node, state: KnownState, *, fed: bool) -> KnownState:
        """A loop over values."""
        body = [child for child in node.children if child.type == "do_group"]
        names = [child for child in node.children if child.type == "variable_name"]
        values: list[Word] = []
        for child in node.children:
            if child.type in LITERAL_NODES or child.type in EXPANSION_NODES:
                values += self.values(child, state)
            elif child not in body and child not in names:
                self.walk(child, state, fed=fed)
        if len(names) != 1 or not values or any(value.text is None and not value.harmless for value in values):
            self.surprise("it loops over values known only at run time")
        changed = self._assigned(node)
        name = self._note_assigned([text_of(child) for child in names])
        known = tuple(dict.fromkeys(values))
        looped = state.without(changed).with_value(name, known if len(known) <= MAX_READINGS else (SOME_TEXT,))
        places = self._loop(body, looped, fed=fed)
        after = dict(state.without(changed).scope)
        after.pop(name, None)
        return KnownState(scope=after, places=places)

    def _loop(self, body: Sequence[Node], state: KnownState, *, fed: bool) -> frozenset[Place]:
        """Walk the body of a loop and return the places after it."""
        if self.in_order(body, state, fed=fed).places == state.places:
            return state.places
        self.surprise("it changes its folder too often to follow")
        return state.places | {(UNKNOWN_STEP,)}

    def on_case_statement(self, node: Node, state: KnownState, *, fed: bool) -> KnownState:
        """A choice by pattern: any of the branches may run, or none."""
        branches = [state]
        for child in node.children:
            if child.type in LITERAL_NODES or child.type in EXPANSION_NODES:
                self._expect_harmless(self.values(child, state, quoted=True))
            elif child.type == "case_item":
                branches.append(self._case_item(child, state, fed=fed))
            else:
                self.walk(child, state, fed=fed)
        return merged(branches)

    def _case_item(self, node: Node, state: KnownState, *, fed: bool) -> KnownState:
        closed = next((index for index, child in enumerate(node.children) if child.type == ")"), len(node.children))
        for child in node.children[:closed]:
            if child.is_named:
                self._expect_harmless(self.values(child, state, quoted=True))
        return self.in_order(node.children[closed:], state, fed=fed)

    def _assigned(self, node: Node) -> dict[str, bool]:
        """Return the variables set anywhere below a node, each with whether it is only ever set to numbers."""
        found: dict[str, bool] = {}
        pending = [node]
        while pending:
            current = pending.pop()
            self.spend(4)
            pending += current.children
            if current.type == "variable_assignment":
                number = current.children[-1].type in {"number", "arithmetic_expansion"}
                for child in current.children[:1]:
                    found[text_of(child)] = found.get(text_of(child), True) and number
            elif current.type == "for_statement":
                found.update({text_of(child): False for child in current.children if child.type == "variable_name"})
            elif current.type == "command" and re.match(r"(?:IFS=\S* )?read\b", text_of(current)):
                found.update(dict.fromkeys(text_of(current).split(), False))
        return found

    # --- commands ---

    def on_command(self, node: Node, state: KnownState, *, fed: bool) -> KnownState:
        """A simple command."""
        words: list[Values] = []
        for child in node.children:
            if child.type == "command_name":
                words.append(self.values(child.children[0], state) if child.children else (UNKNOWN,))
            elif child.type in LITERAL_NODES or child.type in EXPANSION_NODES:
                words.append(self.values(child, state))
            elif child.type == "variable_assignment":
                self._prefix_assignment(child, node, state)
            else:
                fed = fed or child.type == "herestring_redirect"
                self.walk(child, state, fed=fed)
        started = len(self.line.commands)
        self._note_split(node, state)
        self._note(words, fed=fed, state=state)
        noted = self.line.commands[started:]
        expands = re.search(r"[$`]|<[(<]", text_of(node)) or node.children[0].type == "variable_assignment"
        if not expands and not (len(noted) == 1 and _same_words(text_of(node), noted[0])):
            self.surprise("its words are ambiguous", barred=True)
        return self._state_after(noted, state)

    def _note(self, words: Sequence[Values], *, fed: bool, state: KnownState) -> None:
        readings = list(islice(product(*words), MAX_READINGS + 1))
        if len(readings) > MAX_READINGS:
            self.surprise("its variables may have too many values", barred=True)
            most = max(map(len, words))
            readings += [tuple(word[min(index, len(word) - 1)] for word in words) for index in range(most)]
        for reading in readings:
            self.spend(len(reading))
            self.line.commands.append(ShellCommand(words=tuple(reading), fed=fed, places=state.places))

    def _note_split(self, node: Node, state: KnownState) -> None:
        """Note the command in an unquoted variable: ``c='rm x'; $c``."""
        named = [child.children[0] if child.type == "command_name" else child for child in node.children]
        is_eval = text_of(named[0]) == "eval" if named else False
        for child in named if is_eval else named[:1]:
            name = text_of(child).strip("${}")
            known = state.scope.get(name, ()) if child.type in {"simple_expansion", "expansion"} else ()
            texts = [word.text for word in known if word.text and " " in word.text]
            if texts:
                self.surprise("it runs the value of a variable", barred=True)
            for text in texts:
                self.spend(len(text))
                self.line.commands.append(ShellCommand(words=tuple(Word(text=part) for part in text.split())))

    def _state_after(self, commands: Sequence[ShellCommand], state: KnownState) -> KnownState:
        """Return the state after the commands, of which ``cd``, ``read`` and ``exit`` change it."""
        argvs = [command.argv for command in commands]
        programs = {argv[:1] for argv in argvs}
        changing = [command for command, argv in zip(commands, argvs, strict=True) if _changes_folder(argv)]
        if changing:
            places = frozenset((*place, command.step) for command in changing for place in command.places)
            places |= state.places if len(changing) < len(commands) else frozenset()
            if len(places) > MAX_PLACES or any(len(place) > MAX_PLACES for place in places):
                self.surprise("it changes its folder too often to follow")
                return state
            return KnownState(scope=state.scope, places=places)
        if programs == {("read",)}:
            self.line.plain = False
            for name in argvs[0][1:]:
                if LOCAL_NAME.fullmatch(name):
                    state = state.with_value(self._note_assigned([name]), (SOME_TEXT,))
        elif all(argv[:1] == ("exit",) and re.fullmatch(r"exit( \d+)?", " ".join(argv)) for argv in argvs):
            return KnownState(scope=state.scope, places=frozenset())
        return state

    def on_variable_assignment(self, node: Node, state: KnownState, *, fed: bool) -> KnownState:
        """``NAME=VALUE``."""
        names = [text_of(child) for child in node.children if child.type == "variable_name"]
        values: Values = (Word(text=""),)
        for child in node.children:
            if child.type in LITERAL_NODES or child.type in EXPANSION_NODES:
                values = self.values(child, state, quoted=True)
            elif child.type != "variable_name":
                self.walk(child, state, fed=fed)
        name = self._note_assigned(names)
        self.note_values(node, names, values)
        self._expect_harmless(values)
        if any(word.pattern for word in values):
            values = (UNKNOWN,)
        return state.with_value(name, values) if names else state

    def _prefix_assignment(self, node: Node, command: Node, state: KnownState) -> None:
        """Note ``NAME=VALUE`` before a command. ``IFS= read`` is accepted, as the usual way to read lines."""
        if re.fullmatch(r"IFS=['\"]*", text_of(node)) and re.match(r"IFS=['\"]* read\b", text_of(command)):
            return
        if not HARMLESS_SETTING.fullmatch(text_of(node)):
            self.on_variable_assignment(node, state, fed=False)
        self.surprise("it has a variable assignment")

    def _note_assigned(self, names: Sequence[str]) -> str:
        """Note which variables are set, and return the name.

        A variable that programs or the shell may use is a surprise.
        """
        self.set_variables.update(names)
        if len(names) != 1 or not LOCAL_NAME.fullmatch(names[0]):
            self.surprise("it has a variable assignment", barred=True)
        return names[0] if names else ""

    def _expect_harmless(self, values: Values) -> None:
        if any(word.text is None and not word.harmless for word in values):
            self.surprise("it has a word known only at run time")

    # --- tests ---

    def on_test_command(self, node: Node, state: KnownState, *, fed: bool) -> KnownState:
        """``[ ... ]`` or ``[[ ... ]]``."""
        if test := PLAIN_TEST.fullmatch(text_of(node)):
            try:
                words = shlex.split(test["words"])
            except ValueError:
                words = []
            if words:
                self._note([(Word(text=word),) for word in ("test", *words)], fed=fed, state=state)
                return state
        self.line.plain = False
        self.line.nested += substitutions(text_of(node))
        for child in node.children:
            self._condition(child, state, double=node.children[0].type == "[[")
        return state

    def _condition(self, node: Node, state: KnownState, *, double: bool) -> None:
        kind = node.type
        operator = next(
            (text_of(c) for c in node.children if c.type == "test_operator" or text_of(c) in TEXT_TESTS), ""
        )
        operands = [child for child in node.children if child.type in WORDS]
        if kind in {"unary_expression", "binary_expression"} and operator:
            values = [self.values(child, state, quoted=double) for child in operands]
            self._judge_test(operator, values, state)
            for child in node.children:
                if child not in operands and text_of(child) != operator:
                    self._condition(child, state, double=double)
        elif kind in {"unary_expression", "binary_expression", "parenthesized_expression"}:
            for child in node.children:
                self._condition(child, state, double=double)
        elif kind in WORDS:
            self._expect_harmless(self.values(node, state, quoted=double))
        elif kind not in {"[", "]", "[[", "]]", "!", "(", ")", "&&", "||"}:
            self._other(node, state, fed=False)

    def _judge_test(self, operator: str, values: Sequence[Values], state: KnownState) -> None:
        if operator in FILE_TESTS:
            place = [*([values[0]] if len(values) > 1 else []), (Word(text=operator),), values[-1]] if values else []
            self._note([(Word(text="test"),), *place], fed=False, state=state)
        elif operator in NUMBER_TESTS and all(is_number(word) for operand in values for word in operand):
            return
        elif operator in TEXT_TESTS:
            for operand in values:
                self._expect_harmless(operand)
        else:
            self.surprise(f"it has a test {operator!r} that may do more than compare")

    # --- redirections and other nodes ---

    def on_redirected_statement(self, node: Node, state: KnownState, *, fed: bool) -> KnownState:
        """A statement with redirections."""
        fed = fed or any(
            child.type in INPUT_REDIRECTS or re.match(r"0?<(?!\s*/dev/)", text_of(child)) for child in node.children[1:]
        )
        # If a file can't be opened the command doesn't run, and the shell goes on.
        return merged([state, self.in_order(node.children, state, fed=fed)])

    def on_file_redirect(self, node: Node, state: KnownState, *, fed: bool) -> KnownState:
        """A redirection from or to a file."""
        text = text_of(node)
        if read := READ_REDIRECT.fullmatch(text):
            self.line.inputs.append(read["word"])
            return state
        if re.fullmatch(r"<\s*<\(.*\)", text, re.DOTALL):
            return self.in_order(node.children, state, fed=fed)
        if not HARMLESS_REDIRECT.fullmatch(text):
            self.surprise("it redirects input or output", barred=re.match(r"0?<(?![>&])", text) is None)
        return self.in_order(node.children, state, fed=fed)

    def _other(self, node: Node, state: KnownState, *, fed: bool) -> KnownState:
        """Walk a node without a handler and return the state after it. Unknown kinds of nodes are surprises."""
        kind = node.type
        if kind in EXPANSION_NODES or kind in LITERAL_NODES:
            self._expect_harmless(self.values(node, state))
            return state
        if kind == "heredoc_redirect" and not re.match(r"<<-?\s*['\"\\]", text_of(node)):
            self.line.nested += substitutions(text_of(node))
        if kind == "heredoc_body":
            self.line.fed_texts.append(text_of(node))
        elif kind == "herestring_redirect":
            known = [word.likely for child in node.named_children for word in self.values(child, state)]
            self.line.fed_texts.extend(filter(None, known))
        if kind in DEFINITION_NODES:
            self.note_definition(node)
        if kind == "&":
            self.surprise("it starts something in the background", barred=True)
        elif not node.is_named:
            if kind not in PLAIN_TOKENS:
                self.surprise(f"it has {kind!r} where that is unusual")
        elif kind not in {"comment", "file_descriptor", "command_name", "string_content", "variable_name"}:
            self.surprise(f"it has a {kind.replace('_', ' ')}", barred=kind in DEFINITION_NODES)
        return self.in_order(node.children, state, fed=fed or kind == "heredoc_redirect")


HARMLESS_SETTING = re.compile(r"(?:LC_[A-Z]+|LANG|LANGUAGE)=[\w.@-]*|(?:GIT_)?PAGER=cat|NO_COLOR=\d*")
"""Assignments allowed before a command: the language, colours, and turning off the pager."""

CONSTRUCTS = frozenset({"if_statement", "while_statement", "for_statement", "case_statement", "variable_assignment"})
WORDS = LITERAL_NODES | EXPANSION_NODES | {"extglob_pattern", "regex"}


def _changes_folder(argv: Sequence[str]) -> bool:
    """Return whether a command may change the folder of the commands after it."""
    first = argv[0] if argv else ""
    return first in CHANGES_FOLDER or (first in {"builtin", "command", "time"} and not CHANGES_FOLDER.isdisjoint(argv))


def _same_words(source: str, command: ShellCommand) -> bool:
    """Return whether ``shlex`` splits the source into the same words, as a second opinion.

    With unknown words there is nothing to compare, and the answer is True.
    """
    known = [word.text for word in command.words]
    try:
        return len(command.argv) < len(known) or shlex.split(source) == known
    except ValueError:
        return False


INVISIBLE = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"})
ODD_CHARACTER = re.compile(r"[^\S \t\n]|[\x00-\x08\x0e-\x1f\x7f]|\\\s")
"""Unusual white space, control characters, and a backslash before white space.

The parser and bash read the last one differently.
"""
HERE_DOCUMENT = re.compile(r"<<-?[ \t]*['\"\\]?(?P<end>\w+)")
MAX_LINE = 32_768
MAX_NODES = 16_000
MAX_PIPES = 1_500
MAX_HERE_DOCUMENTS = 100
PARSE_CHUNK = 1_000
PARSING_SECONDS = 0.25
"""Maximum CPU time for parsing a line, in seconds. For many lines it grows with the square of their length."""
MAX_NESTING = 100
"""Maximum depth of the tree. A line nested deeper is not read and needs approval."""


@lru_cache(maxsize=256)
def parse_line(line: str, start: Place = ()) -> ShellLine:
    """Parse a shell line that begins in ``start``. What can't be understood is a surprise, never an error."""
    if len(line) > MAX_LINE:
        return _unreadable(f"it is longer than {MAX_LINE:,} characters, too long to check".replace(",", " "))
    tree = _tree(line)
    if tree is None or tree.root_node.descendant_count > MAX_NODES or _nests_deeply(tree):
        return _unreadable("it is too large to check")
    flow = Flow()
    if ODD_CHARACTER.search(line) or _has_invisible(line):
        flow.surprise("it contains unusual characters", barred=True)
    try:
        flow.walk(tree.root_node, KnownState(places=frozenset({start})), fed=False)
    except (TooComplexError, RecursionError):
        return _unreadable(TOO_COMPLEX)
    found = flow.line
    if tree.root_node.has_error:
        flow.surprise("it is not valid shell syntax", barred=True)
        found.commands += _rough_commands(line)
    found.fed_texts = list(dict.fromkeys((*found.fed_texts, *_here_documents(line))))
    found.barred = found.barred or flow.reads_environment
    return found


def _here_documents(line: str) -> Iterator[str]:
    """Yield the texts of here-documents, found in the source because the parser takes some of them for words."""
    for found in HERE_DOCUMENT.finditer(line):
        body = line[found.end() :].partition("\n")[2]
        end = re.search(rf"^\t*{re.escape(found['end'])}$", body, re.MULTILINE)
        yield body[: end.start()] if end else body


def _unreadable(why: str) -> ShellLine:
    return ShellLine(surprises=[why], opaque=why)


def _rough_commands(line: str) -> list[ShellCommand]:
    """Return the commands of a line that does not parse, split at its operators."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    commands: list[list[Word]] = [[]]
    with suppress(ValueError):
        for token in lexer:
            if set(token) <= set("();<>|&"):
                commands.append([])
            else:
                commands[-1].append(Word(text=token, pattern=True))
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
    """Return whether a line contains an invisible character, or one that changes the direction of text."""
    return any(unicodedata.category(char) in INVISIBLE for char in line if not char.isascii())


def _tree(line: str) -> Tree | None:
    """Return the syntax tree, or None if parsing would take too long."""
    if "\0" in line or line.count("|") > MAX_PIPES or line.count("<<") > MAX_HERE_DOCUMENTS:
        return None
    source = line.encode(errors="surrogatepass")
    if len(source) > PARSE_CHUNK:
        until = thread_time() + PARSING_SECONDS
        try:
            _parser().parse(
                lambda at, _point: source[at : at + PARSE_CHUNK],
                progress_callback=lambda _at, _failed: thread_time() > until,
            )
        except ValueError:
            return None
    return _shared_parser().parse(source)  # only a tree parsed from the whole text has the texts of its nodes


def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


_shared_parser = lru_cache(maxsize=1)(_parser)
"""The parser for texts parsed in one call. With a callback, another thread might use the parser in between."""
