"""Tools from files: every form works as written, and what can't work is named with its reason."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from typing import Any

import anyio
import pytest

from vibe.core.config.models import VibeConfig
from vibe.core.tools.base import BaseTool, InvokeContext, TextResult, ToolStreamLine
from vibe.core.tools.discovery import ToolSources
from vibe.core.tools.errors import ToolArgumentsError, ToolError
from vibe.core.tools.manager import ToolManager
from vibe.core.tools.workspace import ReadTracker, Workspace

FULL = """
    from collections.abc import AsyncGenerator
    from pydantic import BaseModel
    from vibe.core.tools.base import BaseTool, BaseToolConfig, BaseToolState, InvokeContext, ToolStreamLine

    class CountArgs(BaseModel):
        text: str

    class CountResult(BaseModel):
        words: int
        calls: int

    class CountConfig(BaseToolConfig):
        bonus: int = 0

    class CountState(BaseToolState):
        calls: int = 0

    class WordCount(BaseTool[CountArgs, CountResult, CountConfig, CountState]):
        description = "Counts words."

        async def run(
            self, args: CountArgs, ctx: InvokeContext | None = None
        ) -> AsyncGenerator[ToolStreamLine | CountResult, None]:
            self.state.calls += 1
            call_id = ctx.tool_call_id if ctx else ""
            yield ToolStreamLine(tool_name="word_count", message="counting", tool_call_id=call_id)
            yield CountResult(words=len(args.text.split()) + self.config.bonus, calls=self.state.calls)
"""
RETURNING = """
    from pydantic import BaseModel
    from vibe.core.tools.base import BaseTool, BaseToolConfig, BaseToolState

    class MyToolArgs(BaseModel):
        \"\"\"Input arguments.\"\"\"
        input_text: str

    class MyToolResult(BaseModel):
        \"\"\"Output result.\"\"\"
        output_text: str

    class MyToolConfig(BaseToolConfig):
        custom_option: str = "default"

    class MyToolState(BaseToolState):
        call_count: int = 0

    class MyTool(BaseTool[MyToolArgs, MyToolResult, MyToolConfig, MyToolState]):
        description = "Description shown to LLM"

        async def run(self, args: MyToolArgs) -> MyToolResult:
            self.state.call_count += 1
            return MyToolResult(output_text=f"Processed: {args.input_text}")
"""
SHORT = """
    # ~/.vibe/tools/project_stats.py
    from pathlib import Path
    from vibe.core.tools.base import BaseTool, BaseToolConfig


    class ProjectStatsConfig(BaseToolConfig):
        include_hidden: bool = False
        max_depth: int = 3


    class ProjectStats(BaseTool[ProjectStatsConfig]):
        @classmethod
        def get_name(cls) -> str:
            return "project_stats"

        @classmethod
        def get_description(cls) -> str:
            return "Generate statistics about the project structure"

        async def run(
            self,
            include_hidden: bool = False,
            max_depth: int = 3
        ) -> str:
            \"\"\"Generate project statistics.\"\"\"
            return f"Project Statistics:\\n- hidden: {include_hidden}\\n- depth: {max_depth}"
"""
WITH_DISPLAY = """
    from pydantic import BaseModel
    from vibe.core.tools.base import BaseTool, BaseToolConfig, BaseToolState, ToolPermission
    from vibe.core.tools.ui import ToolCallDisplay, ToolCallEvent, ToolResultDisplay, ToolResultEvent, ToolUIData

    class TaskArgs(BaseModel):
        task: str
        agent: str = "explore"

    class TaskResult(BaseModel):
        response: str
        turns_used: int

    class TaskToolConfig(BaseToolConfig):
        permission: ToolPermission = ToolPermission.ASK

    class Delegate(
        BaseTool[TaskArgs, TaskResult, TaskToolConfig, BaseToolState],
        ToolUIData[TaskArgs, TaskResult],
    ):
        async def run(self, args: TaskArgs, ctx=None) -> TaskResult:
            return TaskResult(response=args.task.upper(), turns_used=2)

        @classmethod
        def get_call_display(cls, event: ToolCallEvent) -> ToolCallDisplay:
            args = event.args
            if isinstance(args, TaskArgs):
                return ToolCallDisplay(summary=f"Running {args.agent} agent: {args.task}")
            return ToolCallDisplay(summary="Running subagent")

        @classmethod
        def get_result_display(cls, event: ToolResultEvent) -> ToolResultDisplay:
            result = event.result
            if isinstance(result, TaskResult):
                return ToolResultDisplay(success=True, message=f"Agent completed in {result.turns_used} turns")
            return ToolResultDisplay(success=True, message="Agent completed")

        @classmethod
        def get_status_text(cls) -> str:
            return "Running subagent"
"""
NO_ARGUMENTS = """
    # ~/.vibe/tools/my_tool.py
    from vibe.core.tools.base import BaseTool, BaseToolConfig


    class MyTool(BaseTool[BaseToolConfig]):
        @classmethod
        def get_name(cls) -> str:
            return "my_tool"

        @classmethod
        def get_description(cls) -> str:
            return "My custom tool"

        @classmethod
        def get_tool_prompt(cls) -> str:
            return "# My Tool Usage"

        async def run(self) -> str:
            return "Tool executed"
"""
FUTURE = """
    from __future__ import annotations
    from typing import Annotated
    from pydantic import BaseModel, Field
    from vibe.core.tools.base import BaseTool, BaseToolConfig, InvokeContext

    class Point(BaseModel):
        x: int
        title: str = ""

    class Plot(BaseTool[BaseToolConfig]):
        '''Draws points.'''

        async def run(
            self,
            points: list[Point],
            copy: Annotated[int, Field(ge=1, description="how many")] = 1,
            ctx: InvokeContext | None = None,
            *,
            json: str | None = None,
        ) -> str:
            where = ctx.workspace.root.name if ctx else "-"
            return f"{[p.x for p in points]} {copy} {json} {where}"
"""


def write(folder: Path, name: str, source: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(dedent(source), encoding="utf-8")
    return path


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """Return the tool folder of a trusted project."""
    folder = tmp_path / "project" / ".vibe" / "tools"
    folder.mkdir(parents=True)
    return folder


def manager(folder: Path, **config: Any) -> ToolManager:
    sources = ToolSources(root=folder.parent.parent, folders=(folder,))
    return ToolManager(sources, VibeConfig(**config))


def context(tools: Path) -> InvokeContext:
    return InvokeContext(tool_call_id="c1", workspace=Workspace(root=tools.parent.parent), reads=ReadTracker())


def outcome(tool: BaseTool[Any, Any, Any, Any], ctx: InvokeContext | None = None, **raw: Any) -> list[Any]:
    async def collect() -> list[Any]:
        return [item async for item in tool.invoke(ctx, **raw)]

    return anyio.run(collect)


def test_the_full_shape_streams_and_ends_with_a_result(tools: Path) -> None:
    write(tools, "counting.py", FULL)
    tool = manager(tools, tools={"word_count": {"bonus": 10}}).get("word_count")
    first = outcome(tool, context(tools), text="one two")
    second = outcome(tool, text="one")
    assert isinstance(first[0], ToolStreamLine)
    assert (first[0].message, first[0].tool_call_id) == ("counting", "c1")
    assert first[1].model_dump() == {"words": 12, "calls": 1}
    assert tool.format_result(second[1]) == "words: 11\ncalls: 2"


def test_a_run_that_returns_its_result_works_without_a_context(tools: Path) -> None:
    write(tools, "my_tool.py", RETURNING)
    tool = manager(tools).get("my_tool")
    for ctx in (None, context(tools)):
        (result,) = outcome(tool, ctx, input_text="x")
        assert result.output_text == "Processed: x"
    assert tool.state.call_count == 2
    assert tool.config.custom_option == "default"
    assert tool.get_description() == "Description shown to LLM"


def test_the_short_shape_takes_its_arguments_from_the_signature(tools: Path) -> None:
    write(tools, "project_stats.py", SHORT)
    loaded = manager(tools, tools={"project_stats": {"max_depth": 9}})
    assert not loaded.warnings
    tool = loaded.get("project_stats")
    assert tool.get_parameters() == {
        "additionalProperties": False,
        "properties": {
            "include_hidden": {"default": False, "type": "boolean"},
            "max_depth": {"default": 3, "type": "integer"},
        },
        "type": "object",
    }
    (result,) = outcome(tool, include_hidden=True)
    assert result == TextResult(text="Project Statistics:\n- hidden: True\n- depth: 3")
    assert tool.format_result(result) == result.text
    assert tool.config.max_depth == 9


PLACED = """
    from vibe.core.tools.base import BaseTool, BaseToolConfig

    class Placed(BaseTool[BaseToolConfig]):
        async def run(self) -> str:
            return str(self.config.effective_workdir)
"""


def test_a_tool_works_in_the_root_of_the_agent_that_calls_it(tools: Path) -> None:
    write(tools, "placed.py", PLACED)
    ctx = context(tools)
    root = ctx.workspace.root

    assert outcome(manager(tools).get("placed"), ctx) == [TextResult(text=str(root))]
    for given, place in (("sub", root / "sub"), ("/elsewhere", Path("/elsewhere"))):
        placed = manager(tools, tools={"placed": {"workdir": given}}).get("placed")
        assert outcome(placed, ctx) == [TextResult(text=str(place))]
    assert manager(tools).get("placed").config.workdir is None
    with pytest.raises(ToolError, match="only while it is called"):
        _ = manager(tools).get("placed").config.effective_workdir


def test_a_tool_that_words_its_own_display_loads(tools: Path) -> None:
    write(tools, "delegate.py", WITH_DISPLAY)
    (result,) = outcome(manager(tools).get("delegate"), task="look")
    assert result.response == "LOOK"


def test_a_short_tool_takes_models_awkward_names_and_the_context(tools: Path) -> None:
    write(tools, "plot.py", FUTURE)
    loaded = manager(tools)
    assert not loaded.warnings
    tool = loaded.get("plot")
    schema = tool.get_parameters()
    assert list(schema["properties"]) == ["points", "copy", "json"]
    assert schema["properties"]["copy"] == {"default": 1, "description": "how many", "minimum": 1, "type": "integer"}
    assert list(schema["$defs"]["Point"]["properties"]) == ["x", "title"]
    (result,) = outcome(tool, context(tools), points=[{"x": 1}], json="j")
    assert result.text == "[1] 1 j project"
    with pytest.raises(ToolArgumentsError) as problem:
        tool.parse({"points": [{"x": 1}, {"x": "no"}], "copy": 0, "extra": 1})
    text = str(problem.value)
    assert "arguments.points[1].x: input should be a valid integer" in text
    assert "arguments.copy: input should be greater than or equal to 1" in text
    assert "arguments.extra: extra inputs are not permitted" in text


def test_a_missing_argument_is_named_by_its_path(tools: Path) -> None:
    write(tools, "my_tool.py", RETURNING)
    with pytest.raises(ToolArgumentsError, match=r"my_tool: arguments\.input_text: field required"):
        manager(tools).get("my_tool").invoke(None)


def test_the_description_falls_back_to_docstrings_and_the_schema_carries_no_titles(tools: Path) -> None:
    write(tools, "plot.py", FUTURE)
    write(tools, "my_tool.py", RETURNING)
    loaded = manager(tools)
    assert loaded.get("plot").get_description() == "Draws points."
    for schema in loaded.schemas():
        assert '"title": "' not in str(schema.parameters).replace("'", '"')


def test_the_docstring_of_an_argument_model_costs_the_model_nothing(tools: Path) -> None:
    write(tools, "my_tool.py", RETURNING)
    schema = manager(tools).get("my_tool").get_parameters()
    assert schema == {"properties": {"input_text": {"type": "string"}}, "required": ["input_text"], "type": "object"}


def test_schemas_are_the_same_bytes_every_time(tools: Path) -> None:
    write(tools, "plot.py", FUTURE)
    write(tools, "counting.py", FULL)
    first, second = manager(tools).schemas(), manager(tools).schemas()
    assert repr(first) == repr(second)
    assert [schema.name for schema in first] == sorted(schema.name for schema in first)


@pytest.mark.parametrize("name", ["project_stats.md", "stats_file.md"])
def test_a_prompt_beside_the_file_is_found_by_tool_or_file_name(tools: Path, name: str) -> None:
    write(tools, "stats_file.py", SHORT)
    write(tools, f"prompts/{name}", "Use it well.")
    assert manager(tools).prompts()["project_stats"] == "Use it well."


def test_a_tool_without_arguments_may_bring_its_prompt_as_a_method(tools: Path) -> None:
    write(tools, "my_tool.py", NO_ARGUMENTS)
    loaded = manager(tools)
    assert not loaded.warnings
    assert loaded.prompts()["my_tool"] == "# My Tool Usage"
    assert loaded.get("my_tool").get_parameters() == {"additionalProperties": False, "properties": {}, "type": "object"}
    assert outcome(loaded.get("my_tool")) == [TextResult(text="Tool executed")]


@dataclass(frozen=True)
class Broken:
    name: str
    source: str
    reason: str


HEAD = """
from __future__ import annotations
from typing import TYPE_CHECKING
from pydantic import BaseModel
from vibe.core.tools.base import BaseTool, BaseToolConfig, BaseToolState
if TYPE_CHECKING:
    from decimal import Decimal
class A(BaseModel):
    x: int
class R(BaseModel):
    y: int
"""
CLASS = HEAD + "class T(BaseTool[A, R, BaseToolConfig, BaseToolState]):\n"
SHORT_CLASS = HEAD + "class T(BaseTool[BaseToolConfig]):\n"
BROKEN = (
    Broken("syntax", "def f(:\n", "line 1: invalid syntax"),
    Broken("missing import", "x = 1\nimport no_such_module_anywhere\n", "line 2: ModuleNotFoundError"),
    Broken("raises", "raise ValueError('not\\n today')\n", "line 1: ValueError: not today"),
    Broken("exits", "import sys\nsys.exit(3)\n", "SystemExit: 3"),
    Broken("empty", "", "defines no tool"),
    Broken("bytes", "\udcff", "not loaded"),
    Broken("abstract only", "from vibe.core.tools.base import BaseTool\nclass T(BaseTool): pass\n", "defines no tool"),
    Broken("too many types", HEAD + "class T(BaseTool[A, R, A, R, A]):\n    pass\n", "TypeError"),
    Broken("no types", HEAD + "class T(BaseTool):\n    async def run(self, x: int) -> str: ...\n", "names no types"),
    Broken(
        "no config",
        HEAD + "class T(BaseTool[A, R, R, BaseToolState]):\n    async def run(self, args) -> R: ...\n",
        "where a subclass of BaseToolConfig belongs",
    ),
    Broken(
        "no state",
        HEAD + "class T(BaseTool[A, R, BaseToolConfig, R]):\n    async def run(self, args) -> R: ...\n",
        "where a subclass of BaseToolState belongs",
    ),
    Broken(
        "arguments are no model",
        HEAD + "class T(BaseTool[dict, R, BaseToolConfig, BaseToolState]):\n    async def run(self, args) -> R: ...\n",
        "where a subclass of BaseModel belongs",
    ),
    Broken("not async", CLASS + "    def run(self, args): return R(y=1)\n", "run is not async"),
    Broken("sync generator", CLASS + "    def run(self, args): yield R(y=1)\n", "run is not async"),
    Broken("static", CLASS + "    @staticmethod\n    async def run(args): ...\n", "needs self"),
    Broken("no self", CLASS + "    async def run(): ...\n", "does not take self"),
    Broken("no arguments", CLASS + "    async def run(self): ...\n", "run takes ()"),
    Broken("context only", CLASS + "    async def run(self, ctx): ...\n", "run takes (ctx)"),
    Broken("fields", CLASS + "    async def run(self, x: int, y: int, z: int): ...\n", "run takes (x, y, z)"),
    Broken("keywords only", CLASS + "    async def run(self, *, args): ...\n", "run takes (args)"),
    Broken("a third", CLASS + "    async def run(self, args, ctx, more): ...\n", "run takes (args, ctx, more)"),
    Broken("stars", SHORT_CLASS + "    async def run(self, *names: str) -> str: ...\n", "run takes *names"),
    Broken("kwargs", SHORT_CLASS + "    async def run(self, **any: str) -> str: ...\n", "run takes **any"),
    Broken(
        "unresolvable",
        SHORT_CLASS + "    async def run(self, price: Decimal) -> str: ...\n",
        "an annotation of run can't be resolved (name 'Decimal' is not defined)",
    ),
    Broken(
        "unresolvable field",
        CLASS.replace("    x: int\n", "    x: Decimal\n") + "    async def run(self, args): ...\n",
        "A has no JSON Schema (`A` is not fully defined; you should define `Decimal`",
    ),
    Broken(
        "no schema",
        "from collections.abc import Callable\n"
        + SHORT_CLASS.replace("from __future__ import annotations\n", "")
        + "    async def run(self, f: Callable[[], int]) -> str: ...\n",
        "has no JSON Schema",
    ),
    Broken(
        "bad name",
        SHORT_CLASS
        + "    async def run(self) -> str: ...\n    @classmethod\n    def get_name(cls): return 'my tool'\n",
        "its name 'my tool'",
    ),
    Broken(
        "name raises",
        SHORT_CLASS + "    async def run(self) -> str: ...\n    @classmethod\n    def get_name(cls): return 1 / 0\n",
        "ZeroDivisionError",
    ),
)


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.name.replace(" ", "-"))
def test_a_broken_file_is_a_warning_that_names_it_and_why(tools: Path, case: Broken) -> None:
    path = tools / "broken.py"
    path.write_bytes(case.source.encode("utf-8", errors="surrogateescape"))
    write(tools, "my_tool.py", RETURNING)
    loaded = manager(tools)
    (warning,) = loaded.warnings
    assert str(path) in warning
    assert case.reason in warning
    assert "my_tool" in loaded.available


@pytest.mark.parametrize(
    "run",
    [
        "async def run(self, args): return R(y=args.x)",
        "async def run(self, args, ctx): return R(y=args.x)",
        "async def run(self, a, context): return R(y=a.x)",
        "async def run(self, args, ctx=None, more=2): return R(y=args.x)",
        "async def run(self, args, *, ctx): return R(y=args.x)",
        "async def run(self, args, ctx): yield R(y=args.x)",
        "async def run(self, args, /, ctx=None): return R(y=args.x)",
        "async def run(self, args: Undefined) -> AlsoUndefined: return R(y=args.x)",
    ],
)
def test_every_way_to_take_the_arguments_and_the_context_works(tools: Path, run: str) -> None:
    (tools / "t.py").write_text(f"{CLASS}    {run}\n")
    loaded = manager(tools)
    assert not loaded.warnings
    (result,) = outcome(loaded.get("t"), context(tools), x=4)
    assert result.y == 4


def test_a_tool_may_inherit_its_types(tools: Path) -> None:
    source = (
        HEAD
        + "from typing import Generic, TypeVar\nC = TypeVar('C', bound=BaseToolConfig)\n"
        + "class Mine(BaseToolConfig):\n    k: int = 5\n"
        + "class Base(BaseTool[A, R, C, BaseToolState], Generic[C]):\n"
        + "    async def run(self, args): return R(y=args.x + self.config.k)\n"
        + "class Concrete(Base[Mine]):\n    '''Adds.'''\n"
    )
    (tools / "t.py").write_text(source)
    (result,) = outcome(manager(tools).get("concrete"), x=1)
    assert result.y == 6


def test_a_stream_without_a_result_is_an_error(tools: Path) -> None:
    source = CLASS + "    async def run(self, args):\n        for _ in ():\n            yield R(y=1)\n"
    (tools / "t.py").write_text(source)
    tool = manager(tools).get("t")
    shown: list[ToolStreamLine] = []
    with pytest.raises(ToolError, match="t ended without a result"):
        anyio.run(tool.execute, tool.parse({"x": 1}), context(tools), shown.append)


def test_helpers_and_hidden_folders_are_left_alone_and_subfolders_are_not(tools: Path) -> None:
    write(tools, "_helper.py", "raise RuntimeError")
    write(tools, "_private/deep.py", "raise RuntimeError")
    write(tools, "__pycache__/x.py", "raise RuntimeError")
    write(tools, ".hidden/x.py", "raise RuntimeError")
    write(tools, "a/b/my_tool.py", RETURNING)
    write(tools, "notes.txt", "not Python")
    loaded = manager(tools)
    assert "my_tool" in loaded.available
    assert not loaded.warnings


def test_loading_leaves_no_bytecode_and_takes_no_module_name(tools: Path) -> None:
    others = tools.parent / "others"
    for name, source in (("other.py", RETURNING), ("short.py", SHORT)):
        write(others, name, source)
    manager(others)  # from here on, all that loading itself imports is loaded
    write(tools, "my_tool.py", RETURNING)
    write(tools, "json.py", SHORT)
    before = set(sys.modules)
    manager(tools)
    assert {name.split("_file_")[0] for name in set(sys.modules) - before} <= {"vibe_tool"}
    assert sorted(path.name for path in tools.iterdir()) == ["json.py", "my_tool.py"]
    assert not hasattr(sys.modules["json"], "ProjectStats")


def test_a_changed_file_is_loaded_anew_at_once(tools: Path) -> None:
    path = write(tools, "my_tool.py", RETURNING)
    assert manager(tools).get("my_tool").get_description() == "Description shown to LLM"
    path.write_text(path.read_text().replace("shown to LLM", "shown to you"))
    assert manager(tools).get("my_tool").get_description() == "Description shown to you"


def test_a_failed_load_leaves_no_module_behind(tools: Path) -> None:
    before = set(sys.modules)
    write(tools, "broken.py", "raise ValueError")
    manager(tools)
    assert not {name for name in set(sys.modules) - before if name.startswith("vibe_tool_file")}
