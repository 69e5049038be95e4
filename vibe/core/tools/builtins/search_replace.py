"""search_replace: makes exact edits to a text file, all of them or none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import Annotated, Any, ClassVar, cast

from anyio import to_thread
from pydantic import AliasChoices, Field, TypeAdapter, model_validator
from pydantic.json_schema import SkipJsonSchema

from ipc.events import WrittenFile
from vibe.core.tools.base import Assessment, BaseToolConfig, InvokeContext, PathAccess, ToolArgs, ToolError
from vibe.core.tools.builtins._blocks import LEAST_SIMILAR, Block, apply_blocks, parse_blocks
from vibe.core.tools.edits import EditResult, EditTool, FileDiff, FileEdit
from vibe.core.tools.files.text_files import decode, read_whole
from vibe.core.tools.workspace import Workspace
from vibe.system.plain_text import counted


class Edit(ToolArgs):
    """Old text and new, as other agents word an edit."""

    old_string: str
    new_string: str = ""
    replace_all: bool = False


class SearchReplaceArgs(ToolArgs):
    """The file and the blocks.

    ``old_string`` and ``new_string``, or a list of such ``edits``, are accepted in place of the blocks.
    """

    file_path: Annotated[str, Field(validation_alias=AliasChoices("file_path", "path"))]
    content: Annotated[str, Field(min_length=1, description="SEARCH/REPLACE blocks")]
    edits: SkipJsonSchema[tuple[Edit, ...]] = ()

    @model_validator(mode="before")
    @classmethod
    def _other_wording(cls, given: Any) -> Any:
        if not isinstance(given, dict) or "content" in given:
            return cast("Any", given)
        rest = dict(cast("dict[str, Any]", given))
        if "old_string" in rest:
            rest["edits"] = [{name: rest.pop(name) for name in Edit.model_fields if name in rest}]
        if not rest.get("edits"):
            return rest
        edits = TypeAdapter(tuple[Edit, ...]).validate_python(rest["edits"])
        return rest | {"edits": edits, "content": "".join(block.written() for block in _blocks_from(edits))}


class SearchReplaceResult(EditResult):
    """The outcome of an edit. ``content`` holds the blocks as given, ``change`` their effect."""

    file: str
    blocks_applied: int
    lines_changed: int
    content: str
    backup: str | None = None

    def written_files(self) -> tuple[WrittenFile, ...]:
        """Return the file and, if there is one, its backup."""
        backup = (WrittenFile(path=self.backup, created=True),) if self.backup else ()
        return (WrittenFile(path=self.file, added=self.change.added, removed=self.change.removed), *backup)


class SearchReplaceConfig(BaseToolConfig):
    """``max_content_size`` is the most bytes of blocks. With ``create_backup``, the old version is kept as ``.bak``.

    If an old text is missing, the closest place is shown if its similarity (0 to 1) is at least ``fuzzy_threshold``.
    """

    max_content_size: Annotated[int, Field(ge=1)] = 100_000
    create_backup: bool = False
    fuzzy_threshold: Annotated[float, Field(ge=0, le=1)] = LEAST_SIMILAR


class SearchReplace(EditTool[SearchReplaceArgs, SearchReplaceResult, SearchReplaceConfig]):
    """Edits text files."""

    description: ClassVar[str] = "Edit a file with SEARCH/REPLACE blocks."

    async def run(self, args: SearchReplaceArgs, ctx: InvokeContext) -> SearchReplaceResult:
        """Apply all blocks or none. Encoding, byte order mark, line ends and mode are preserved."""
        return await to_thread.run_sync(self._edit, args, ctx)

    def assess(self, args: SearchReplaceArgs, workspace: Workspace) -> Assessment:  # noqa: ARG002  the interface
        """Name the file that is written, and the backup beside it if one will be made."""
        names = (args.file_path, f"{args.file_path}.bak") if self.config.create_backup else (args.file_path,)
        return Assessment(paths=tuple(PathAccess(path=name, write=True) for name in names))

    def summarize(self, args: SearchReplaceArgs) -> str:
        """Return the call with its file: ``search_replace src/a.py``."""
        return f"search_replace {args.file_path}"

    def format_result(self, result: SearchReplaceResult) -> str:
        """Return one line, and a line for each warning."""
        blocks, lines = counted(result.blocks_applied, "block"), counted(result.lines_changed, "line")
        return result.report(f"edited {result.file}: {blocks}, {lines} changed")

    def planned(self, args: SearchReplaceArgs, workspace: Workspace) -> FileEdit:
        """Return the edit that all blocks make. Fails as the call would."""
        path, most = workspace.writable(args.file_path), self.config.max_content_size
        name = workspace.relative(path)
        size = len(args.content.encode(errors="replace"))
        if size > most:
            raise ToolError(f"the blocks for {name!r} have {size} bytes, more than {most}; use two calls")
        blocks = _blocks_of(args)
        old = read_whole(workspace.files, path, name)
        decoded = decode(old, name)
        text = apply_blocks(decoded.text, blocks, name, self.config.fuzzy_threshold)
        return FileEdit(path=path, name=name, old=old, decoded=decoded, text=text)

    def _edit(self, args: SearchReplaceArgs, ctx: InvokeContext) -> SearchReplaceResult:
        edit, blocks = self.planned(args, ctx.workspace), _blocks_of(args)
        data, before = edit.encoded(), edit.decoded.text
        backup = _back_up(edit, ctx) if self.config.create_backup else None
        diff, linked = (FileDiff(), list[str]()) if data == edit.old else edit.write(ctx, data)
        return SearchReplaceResult(
            file=edit.name,
            blocks_applied=len(blocks),
            lines_changed=sum(map(_lines_changed, blocks)),
            content=args.content,
            warnings=[*_warnings(edit.path, before, edit.text), *linked],
            backup=backup,
            change=diff,
        )


def _blocks_of(args: SearchReplaceArgs) -> tuple[Block, ...]:
    return _blocks_from(args.edits) or parse_blocks(args.content)


def _blocks_from(edits: Sequence[Edit]) -> tuple[Block, ...]:
    return tuple(
        Block(number=number, search=_lf(edit.old_string), replace=_lf(edit.new_string), everywhere=edit.replace_all)
        for number, edit in enumerate(edits, start=1)
    )


def _lf(text: str) -> str:
    """Return a text with line feeds for all line ends, as files are edited."""
    return text.replace("\r\n", "\n")


def _warnings(path: Path, before: str, after: str) -> list[str]:
    if before == after:
        return ["the file is as it was: old and new text are the same"]
    problem = _format_problem(path.suffix, after)
    return [f"the file is not valid {problem}"] if problem and not _format_problem(path.suffix, before) else []


def _format_problem(suffix: str, text: str) -> str:
    """Return why a text is not valid JSON or YAML, as its file's name says it is, or an empty string."""
    try:
        if suffix == ".json":
            json.loads(text)
        elif suffix in {".yaml", ".yml"}:
            import yaml

            for _ in yaml.parse(text, Loader=yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader):
                pass
    except (ValueError, RecursionError) as error:
        return f"JSON now: {error}"
    except Exception as error:
        if type(error).__module__.partition(".")[0] != "yaml":
            raise
        return f"YAML now: {' '.join(str(error).split())}"
    return ""


def _back_up(edit: FileEdit, ctx: InvokeContext) -> str:
    backup, files = ctx.workspace.writable(f"{edit.path}.bak"), ctx.workspace.files
    name = ctx.workspace.relative(backup)
    previous = read_whole(files, backup, name) if files.exists(backup) else None
    ctx.workspace.write(backup, name, edit.old or b"", previous=previous)
    return name


def _lines_changed(block: Block) -> int:
    old, new = block.search.split("\n"), [] if block.replace is None else block.replace.split("\n")
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    return sum(
        max(end1 - start1, end2 - start2) for tag, start1, end1, start2, end2 in matcher.get_opcodes() if tag != "equal"
    )
