"""search_replace: exact edits of a text file, all of them or none."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import partial
from pathlib import Path
from typing import Annotated, Any, ClassVar, cast

from anyio import to_thread
from pydantic import AliasChoices, BaseModel, ConfigDict, Field, TypeAdapter, model_validator
from pydantic.json_schema import SkipJsonSchema

from ipc.events import DiffDisplay, WrittenFile
from vibe.core.tools.base import BaseTool, BaseToolConfig, BaseToolState, InvokeContext, ToolError
from vibe.core.tools.builtins._blocks import Block, apply_blocks, parse_blocks
from vibe.core.tools.builtins._closest import LEAST_SIMILAR
from vibe.core.tools.files.diffs import FileDiff, file_diff
from vibe.core.tools.files.text_files import DecodedText, decode, encoded_as, read_whole
from vibe.core.tools.permissions import Assessment, PathAccess
from vibe.core.tools.ports import CallOutlook
from vibe.core.tools.workspace import Workspace


class Edit(BaseModel):
    """Old text and new, as other agents word an edit."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    old_string: str
    new_string: str = ""
    replace_all: bool = False


class SearchReplaceArgs(BaseModel):
    """The file, and the blocks.

    In their place ``old_string`` and ``new_string``, or a list of such ``edits``, are taken.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

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
        return rest | {"edits": edits, "content": "".join(block.written() for block in _blocks_of(edits))}


class SearchReplaceResult(BaseModel):
    """What was changed; ``content`` is the blocks as given, ``diff`` what they came to.

    ``added`` and ``removed`` count lines.
    """

    file: str
    blocks_applied: int
    lines_changed: int
    content: str
    warnings: list[str] = []
    backup: str | None = None
    diff: str = ""
    added: int = 0
    removed: int = 0


class SearchReplaceConfig(BaseToolConfig):
    """``max_content_size``: the longest blocks, in bytes. ``create_backup``: keep the old version as ``.bak``.

    ``fuzzy_threshold``: how like old text that is missing a place must be, from 0 to 1, to be shown as the closest.
    """

    max_content_size: Annotated[int, Field(ge=1)] = 100_000
    create_backup: bool = False
    fuzzy_threshold: Annotated[float, Field(ge=0, le=1)] = LEAST_SIMILAR


class SearchReplace(BaseTool[SearchReplaceArgs, SearchReplaceResult, SearchReplaceConfig, BaseToolState]):
    """Edits text files."""

    description: ClassVar[str] = "Edit a file with SEARCH/REPLACE blocks."
    edits_files: ClassVar[bool] = True

    async def run(self, args: SearchReplaceArgs, ctx: InvokeContext) -> AsyncGenerator[SearchReplaceResult, None]:
        """Apply all blocks, or none; encoding, byte order mark, line ends and mode stay as they are."""
        yield await to_thread.run_sync(partial(_edit, args, ctx, self.config))

    def assess(self, args: SearchReplaceArgs, workspace: Workspace) -> Assessment:  # noqa: ARG002  the interface
        """Name the file, written, and the backup beside it, if there will be one."""
        names = (args.file_path, f"{args.file_path}.bak") if self.config.create_backup else (args.file_path,)
        return Assessment(paths=tuple(PathAccess(path=name, write=True) for name in names))

    def summarize(self, args: SearchReplaceArgs) -> str:
        """The file: ``search_replace src/a.py``."""
        return f"search_replace {args.file_path}"

    def format_result(self, result: SearchReplaceResult) -> str:
        """One line, and a line for each warning."""
        blocks = "1 block" if result.blocks_applied == 1 else f"{result.blocks_applied} blocks"
        lines = "1 line" if result.lines_changed == 1 else f"{result.lines_changed} lines"
        first = f"edited {result.file}: {blocks}, {lines} changed"
        return "\n".join([first, *(f"[{warning}]" for warning in result.warnings)])

    def outlook(self, args: SearchReplaceArgs, workspace: Workspace, *, sandboxed: bool) -> CallOutlook:
        """The file, and how many lines come and go; fails as the edit would."""
        del sandboxed
        edited = _edited(args, workspace, self.config)
        diff = file_diff(edited.name, edited.decoded.text, edited.text)
        file = WrittenFile(path=edited.name, added=diff.added, removed=diff.removed)
        return CallOutlook(display=DiffDisplay(files=(file,)), cwd=str(workspace.root))

    def display(self, result: SearchReplaceResult) -> DiffDisplay:
        """The file, and how many of its lines came and went; its backup."""
        file = WrittenFile(path=result.file, added=result.added, removed=result.removed)
        backup = (WrittenFile(path=result.backup, created=True),) if result.backup else ()
        return DiffDisplay(files=(file, *backup))

    def preview(self, args: SearchReplaceArgs, workspace: Workspace) -> str:
        """The edit as a diff; fails as the edit would."""
        edited = _edited(args, workspace, self.config)
        return file_diff(edited.name, edited.decoded.text, edited.text).text

    def diff(self, result: SearchReplaceResult) -> str:
        """The edit as a diff; nothing of a file that may hold secrets."""
        return result.diff

    def files_changed(self, result: SearchReplaceResult) -> tuple[str, ...]:
        """The file, and its backup."""
        return (result.file, *([result.backup] if result.backup else []))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Edited:
    """A file as it is, and its text as it will be."""

    path: Path
    name: str
    data: bytes
    decoded: DecodedText
    blocks: tuple[Block, ...]
    text: str


def _edited(args: SearchReplaceArgs, workspace: Workspace, config: SearchReplaceConfig) -> _Edited:
    path = workspace.writable(args.file_path)
    name = workspace.relative(path)
    size = len(args.content.encode(errors="replace"))
    if size > config.max_content_size:
        raise ToolError(
            f"the blocks for {name!r} have {size} bytes, more than {config.max_content_size}; use two calls"
        )
    blocks = _blocks_of(args.edits) or parse_blocks(args.content)
    data = read_whole(workspace.files, path, name)
    decoded = decode(data, name)
    text = apply_blocks(decoded.text, blocks, name, config.fuzzy_threshold)
    return _Edited(path=path, name=name, data=data, decoded=decoded, blocks=blocks, text=text)


def _edit(args: SearchReplaceArgs, ctx: InvokeContext, config: SearchReplaceConfig) -> SearchReplaceResult:
    edited = _edited(args, ctx.workspace, config)
    path, name, data, text = edited.path, edited.name, edited.data, edited.text
    changed = encoded_as(edited.decoded, text, name)
    backup = _back_up(path, data, ctx) if config.create_backup else None
    seen = ctx.reads.is_current(path, data)
    linked = ctx.workspace.replace(path, name, changed, previous=data) if changed != data else ""
    if seen:
        ctx.reads.note(path, changed)
    diff = FileDiff() if ctx.workspace.is_secret(path) else file_diff(name, edited.decoded.text, text)
    return SearchReplaceResult(
        file=name,
        blocks_applied=len(edited.blocks),
        lines_changed=sum(map(_lines_changed, edited.blocks)),
        content=args.content,
        warnings=[*_warnings(path, edited.decoded.text, text), *filter(None, [linked])],
        backup=backup,
        diff=diff.text,
        added=diff.added,
        removed=diff.removed,
    )


def _blocks_of(edits: Sequence[Edit]) -> tuple[Block, ...]:
    return tuple(
        Block(number=number, search=edit.old_string, replace=edit.new_string, everywhere=edit.replace_all)
        for number, edit in enumerate(edits, start=1)
    )


def _warnings(path: Path, before: str, after: str) -> list[str]:
    if before == after:
        return ["the file is as it was: old and new text are the same"]
    problem = _format_problem(path.suffix, after)
    return [f"the file is no valid {problem}"] if problem and not _format_problem(path.suffix, before) else []


def _format_problem(suffix: str, text: str) -> str:
    """Return what keeps a text from being read as what its name says it is, JSON or YAML; or nothing."""
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


def _back_up(path: Path, data: bytes, ctx: InvokeContext) -> str:
    backup, files = ctx.workspace.writable(f"{path}.bak"), ctx.workspace.files
    name = ctx.workspace.relative(backup)
    if files.exists(backup):
        ctx.workspace.replace(backup, name, data, previous=read_whole(files, backup, name))
    else:
        files.create(backup, name, data)
    return name


def _lines_changed(block: Block) -> int:
    old, new = block.search.split("\n"), [] if block.replace is None else block.replace.split("\n")
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    return sum(
        max(end1 - start1, end2 - start2) for tag, start1, end1, start2, end2 in matcher.get_opcodes() if tag != "equal"
    )
