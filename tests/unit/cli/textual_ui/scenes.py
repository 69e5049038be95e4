"""Scenes on the real screen with a fixed clock: its main moments, as people see them."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from difflib import unified_diff
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, cast

import anyio
from anyio.abc import TaskGroup
from msgspec import structs
from textual.pilot import Pilot
from textual.screen import Screen
from textual.widgets import Input

from ipc import events as e
from ipc.events import (
    Event,
    Expectation,
    PlanBounds,
    PlanExpectation,
    PlannedCommand,
    PlanProposedEvent,
    StepOutline,
    TodoEntry,
    WorkDone,
    WorkOrder,
)
from planner.plan.status import PlanStatus
from planner.store.folder import PlanSummary
from tests.fakes.boards import asking_board, board_of
from tests.fakes.reviews import SHOP, FakeReview
from tests.unit.cli.textual_ui.controllers.test_app_controller import ScriptedChat
from vibe.app.engine.host import Host
from vibe.app.first_use.flow import FirstUse
from vibe.app.plan.looking_back import PastPlan
from vibe.cli.environment import CliEnvironment
from vibe.cli.textual_ui.app import VibeApp
from vibe.cli.textual_ui.controllers.app_controller import ChatAbout
from vibe.cli.textual_ui.input.prompt_input import CompletionPopup
from vibe.cli.textual_ui.log.entry import LogEntry
from vibe.cli.textual_ui.overview.summaries import SidePanel
from vibe.cli.textual_ui.panels.panel_frame import PanelFrame
from vibe.cli.textual_ui.presenters.chat_presenter import SavedPart
from vibe.cli.textual_ui.screen_commands import screen_commands
from vibe.cli.textual_ui.screens.agent_screens import TranscriptScreen
from vibe.cli.textual_ui.screens.picker_screen import PickerScreen
from vibe.cli.textual_ui.screens.review_screen import ReviewScreen
from vibe.cli.textual_ui.screens.runs_screen import RunsDesk, RunsScreen
from vibe.cli.textual_ui.screens.setup_screen import SetupScreen, SetupStep
from vibe.core.messages import AssistantMessage, UserMessage
from vibe.core.session.restoring import FileBack
from vibe.core.tools.questions import Choice, Question
from vibe.front.picker import Picker, PickRow, titled
from vibe.front.review import ReviewDraft, key_of
from vibe.front.slash.command import Talk
from vibe.front.slash.commands.files import rewind_picker
from vibe.front.slash.table import SlashTable
from vibe.front.start_screen import (
    AgentFacts,
    GitFacts,
    ModelFacts,
    ProjectFacts,
    SandboxFacts,
    StartFacts,
)
from vibe.view.view import View, apply

PUT_OFF = 0.2
"""Seconds to wait before the delayed drawing of widgets is checked. On a fast machine it is over by then."""
NOW = 1_800_000_000.0
STARTED = NOW - 151.0
SESSION = "5e1f9c02"
CHAT: dict[str, Any] = {"session_id": SESSION, "ts": NOW - 60.0}
LATER: dict[str, Any] = {"session_id": SESSION, "ts": NOW - 15.0}
PLAN = "textkit"


class Stage:
    """The app while a scene is played in it."""

    def __init__(self, app: VibeApp, pilot: Pilot[None], group: TaskGroup, folder: Path) -> None:
        self.app = app
        self.pilot = pilot
        self.folder = folder
        self._group = group

    async def see(self, *events: Event) -> None:
        """Publish events, and wait until they are drawn."""
        for event in events:
            self.app.store.publish(event)
        self.app.store.flush()
        await self.settle()

    async def begin(self, work: Callable[..., Coroutine[Any, Any, object]], *arguments: Any) -> None:
        """Start work that ends later, such as when a person answers."""
        self._group.start_soon(work, *arguments)
        await self.settle()

    async def cover(self, screen: Screen[Any]) -> None:
        """Show a screen over the chat."""
        await self.app.push_screen(screen)
        await self.until(lambda: self.app.screen is screen)

    async def press(self, *keys: str) -> None:
        """Press keys, and wait until their effect is drawn."""
        await self.pilot.press(*keys)
        await self.settle()

    async def settle(self) -> None:
        """Wait until everything is drawn."""
        for _ in range(2):
            await self.pilot.pause()

    async def look(self, size: tuple[int, int], theme: str) -> None:
        """Change the size and the theme."""
        self.app.theme = theme
        await self.pilot.resize_terminal(*size)
        await self.rest()

    async def rest(self) -> None:
        """Wait until no widget delays its drawing any more, and every panel takes keys."""
        await self.until(lambda: not any(panel.asleep for panel in self.app.screen.query(PanelFrame)))
        await self.pilot.pause(PUT_OFF)
        await self.until(lambda: not self._puts_off)

    @property
    def _puts_off(self) -> bool:
        """True if a widget waits before it may draw again. The slower the machine draws, the longer it waits."""
        nodes = chain([self.app], *(screen.walk_children(with_self=True) for screen in self.app.screen_stack))
        timers = chain.from_iterable(cast("Any", node)._timers for node in nodes)
        return any(getattr(getattr(each._callback, "__self__", None), "_soon", None) is each for each in timers)

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until the condition holds."""
        with anyio.fail_after(120):
            while not condition():
                await self.pilot.pause(0.01)
        await self.settle()


Play = Callable[[Stage], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Scene:
    """A scene, with its size and its colours."""

    play: Play
    size: tuple[int, int]
    theme: str = "textual-dark"
    is_coloured: bool = True


def made_app(theme: str, folder: Path, clock: Callable[[], float] = lambda: NOW) -> VibeApp:
    """Return the app, with its home and its project in ``folder``. Reads the settings."""
    home, project = folder / "home", folder / "textkit"
    home.mkdir(mode=0o700)
    for name in ("pyproject.toml", "README.md", "textkit/slugs.py", "textkit/short.py", "tests/test_slugs.py"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).touch()
    (home / "config.toml").write_text(f'[ui]\ntheme = "{theme}"\n')
    nothing = io.StringIO()
    env = CliEnvironment(home=home, cwd=project, environ={}, stdin=nothing, stdout=nothing, stderr=nothing)
    app = VibeApp(env, lambda: None, clock=clock)
    app.animation_level = "none"
    return app


@asynccontextmanager
async def played(scene: Scene, app: VibeApp, folder: Path) -> AsyncGenerator[Stage]:
    """Run the app with a scene on it."""
    async with app.run_test(size=scene.size) as pilot, anyio.create_task_group() as group:
        about = ChatAbout(session_id=SESSION, folder=folder / "textkit", saved=SavedPart(()), commands=_commands(app))
        app.chat_screen.opened(ScriptedChat(about=about), "")
        app.chat_screen.start.update(SEAT)
        stage = Stage(app, pilot, group, folder)
        await stage.see(*CONFIGURED)
        await scene.play(stage)
        for line in app.screen.query(Input):
            line.cursor_blink = False
        await stage.rest()
        yield stage
        group.cancel_scope.cancel()


def _commands(app: VibeApp) -> list[tuple[str, str, str]]:
    return [(one.name, one.usage, one.about) for one in SlashTable(screen_commands(app.chat_screen)).values()]


# --- conversations

CONFIGURED = (
    e.ConversationConfiguredEvent(agent="default", model="devstral-2", thinking="high", approvals="ask", **CHAT),
    e.ModelStartedEvent(message_id="0", model="devstral-2", context_tokens=31_400, context_limit=256_000, **CHAT),
    e.ModelEndedEvent(message_id="0", model="devstral-2", status="ok", **CHAT),
)
ANSWER = """\
`slugify()` calls `encode("ascii", "ignore")`, and that *drops* what it can't encode. Two ways to keep the letter:

1. **Decompose first** (`NFKD`): the accent becomes a character of its own, and only that is dropped.
2. A table of letters, for those that do not decompose, such as `ß`.

| text | now | then |
|---|---|---|
| `Crème brûlée` | `crme-brle` | `creme-brulee` |
| `Straße` | `strae` | `strasse` |

The change is three lines:

```python
def slugify(text: str) -> str:
    text = unicodedata.normalize("NFKD", text.replace("ß", "ss"))
    plain = text.encode("ascii", "ignore").decode()  # accents go
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")
```
"""
BEFORE = """\
import re


def slugify(text: str) -> str:
    plain = text.encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")
"""
AFTER = """\
import re
import unicodedata


def slugify(text: str) -> str:
    text = unicodedata.normalize("NFKD", text.replace("ß", "ss"))
    plain = text.encode("ascii", "ignore").decode()  # accents go
    return re.sub(r"[^a-z0-9]+", "-", plain.lower()).strip("-")
"""
DIFF = "".join(
    unified_diff(
        BEFORE.splitlines(keepends=True), AFTER.splitlines(keepends=True), "a/textkit/slugs.py", "b/textkit/slugs.py"
    )
)
OUTPUT = """\
test_accents_are_dropped_and_letters_stay (tests.test_slugs.Slugs) ... ok
test_blank_text_has_a_blank_slug (tests.test_slugs.Slugs) ... ok
test_words_are_joined_by_hyphens (tests.test_slugs.Slugs) ... ok

----------------------------------------------------------------------
Ran 3 tests in 0.004s

OK
"""


def _called(number: int, tool: str, summary: str, **fields: Any) -> e.ToolCallEvent:
    return e.ToolCallEvent(tool_call_id=f"c{number}", tool=tool, arguments={}, summary=summary, **CHAT, **fields)


def _ended(number: int, tool: str, content: str, seconds: float = 0.0, **fields: Any) -> e.ToolResultEvent:
    return e.ToolResultEvent(
        tool_call_id=f"c{number}", tool=tool, status="ok", content=content, duration_s=seconds, **CHAT, **fields
    )


def _spent(tokens: int, cost: float, **whose: Any) -> e.UsageEvent:
    return e.UsageEvent(
        model="devstral-2", prompt_tokens=tokens, completion_tokens=tokens // 20, cost_usd=cost, **whose
    )


TODO = e.TodoDisplay(
    items=(
        TodoEntry(id="1", content="Find where the letters go missing", status="completed"),
        TodoEntry(id="2", content="Keep them, and test it", status="in_progress"),
        TodoEntry(id="3", content="Say so in README.md"),
    )
)
TALK: tuple[Event, ...] = (
    e.PromptStartedEvent(prompt_id="p1", **CHAT),
    e.UserMessageEvent(text='Why does slugify("Crème brûlée") lose letters? Mend it.', message_index=0, **CHAT),
    e.ReasoningDeltaEvent(message_id="1", text="The accents must be lost when it is encoded.", **CHAT),
    e.AssistantEvent(message_id="1", text="", tool_calls=2, message_index=1, **CHAT),
    _called(1, "grep", "grep 'encode' in textkit"),
    _ended(1, "grep", "textkit/slugs.py:6:    plain = text.encode"),
    _called(2, "todo", "todo write (3 items)"),
    _ended(2, "todo", "3 items", display=TODO),
    e.AssistantEvent(message_id="2", text=ANSWER, tool_calls=1, message_index=4, **CHAT),
    _spent(33_000, 0.02, **CHAT),
    _called(3, "search_replace", "search_replace textkit/slugs.py"),
    _ended(3, "search_replace", "1 place changed", 0.2, diff=DIFF),
    _called(4, "bash", "bash python3 -m unittest -v tests.test_slugs"),
    _ended(4, "bash", OUTPUT, 1.3),
)
ENDED: tuple[Event, ...] = (
    e.AssistantEvent(
        message_id="3", text="All three tests pass: **Crème brûlée** is `creme-brulee` now.", message_index=7, **CHAT
    ),
    e.PromptEndedEvent(prompt_id="p1", outcome="completed", **CHAT),
)
WORKING: tuple[Event, ...] = (
    _called(5, "bash", "bash scripts/check"),
    e.ToolStreamEvent(tool_call_id="c5", tool="bash", text="ruff check .\nAll checks passed!\npyright\n", **CHAT),
)


SEAT = StartFacts(
    version="0.1",
    folder="~/textkit",
    agent=AgentFacts(
        model=ModelFacts(name="devstral-2", prices=(0.4, 2.0)),
        mode="asks before it edits or runs commands",
        sandbox=SandboxFacts(name="bubblewrap"),
        tools=12,
        skills=2,
        servers=1,
    ),
)
LEFT = PlanSummary(
    plan_id="0a1b2c-20270114",
    goal="Make receipts and exports right",
    counts={"completed": 1, "pending": 5},
    updated=NOW - 52_000.0,
)
PROJECT = ProjectFacts(git=GitFacts(branch="main", changed=3), docs=["AGENTS.md"], tests="tests/", left=[LEFT])


async def start(on: Stage) -> None:
    """A new conversation, with an unfinished plan."""
    on.app.chat_screen.start.update(structs.replace(SEAT, project=PROJECT))


async def empty(on: Stage) -> None:
    """A conversation in which nothing was said yet."""


async def talk(on: Stage) -> None:
    """A question, an answer, a change, and a test that passed."""
    await on.see(*TALK, *ENDED)


async def talk_unfolded(on: Stage) -> None:
    """All calls are unfolded, one still runs, and the person is typing a line."""
    await on.see(*TALK, *WORKING)
    await on.press("ctrl+o")
    on.app.chat_screen.prompt.set_text("and say so in the README")


async def unasked(on: Stage) -> None:
    """The chat's agent needs no approvals."""
    await on.see(*TALK, *ENDED, structs.replace(CONFIGURED[0], agent="auto-approve", approvals="all"))


async def notes(on: Stage) -> None:
    """An error, a call that was stopped, and a command that the person ran in the shell."""
    shell = e.ToolCallEvent(tool_call_id="s1", tool="shell", arguments={}, summary="git status -s", **CHAT)
    ran = e.ToolResultEvent(
        tool_call_id="s1", tool="shell", status="ok", content=" \x1b[31mM\x1b[m textkit/slugs.py\n?? notes.txt", **CHAT
    )
    failed = e.ToolResultEvent(
        tool_call_id="c7", tool="bash", status="error", content="exit code 2\nmake: no rule", duration_s=0.3, **CHAT
    )
    denied = e.ToolResultEvent(tool_call_id="c8", tool="bash", status="denied", content="not now", **CHAT)
    await on.see(
        shell,
        ran,
        e.UserMessageEvent(text="make it and push it", message_index=0, images=1, **CHAT),
        _called(7, "bash", "bash make"),
        failed,
        _called(8, "bash", "bash git push"),
        denied,
        e.WarningEvent(code="slow", message="the model is asked again in 4 s: it is overloaded (529)", **CHAT),
        e.ErrorEvent(code="x", message="mistral does not serve the model 'devstral-9'", **CHAT),
        e.AssistantEvent(message_id="3", text="I stopped befo", message_index=2, interrupted=True, **CHAT),
    )
    on.app.chat_screen.log_view.append(LogEntry("note", "while you were away: 1 prompt answered"))


# --- runs of this machine


async def runs(on: Stage) -> None:
    """A plan elsewhere asks for two things. Other runs are active or have ended."""
    desk = RunsDesk(board=asking_board(on.folder, NOW), clock=lambda: NOW)
    await on.cover(RunsScreen(desk))


async def runs_found(on: Stage) -> None:
    """The person searches for a run."""
    await runs(on)
    await on.press("slash", "a", "p", "i")


async def no_runs(on: Stage) -> None:
    """No run is active on this machine, and none ever was."""
    await on.cover(RunsScreen(RunsDesk(board=board_of(on.folder), clock=lambda: NOW)))


# --- requests to a person


async def approval(on: Stage) -> None:
    """A command waits for approval."""
    await on.see(*TALK)
    request = e.ApprovalRequestEvent(
        request_id="r1",
        tool_call_id="c6",
        tool="bash",
        arguments={"command": "git add -A && git commit -m 'fix: slugs keep their letters' && git push origin main"},
        summary="bash git add -A && git commit -m 'fix: slugs keep their letters' && git push origin main",
        rule="permission",
        reason="bash needs your approval: no rule allows git push",
        covers=("bash: git add", "bash: git commit", "bash: git push"),
        cwd="~/textkit",
        confined=False,
        preview=e.CommandDisplay(command="git push"),
    )
    await _ask_for(on, request)


async def approval_of_edit(on: Stage) -> None:
    """A change of a file waits for approval, with a question queued behind it."""
    await on.see(*TALK[:-4])
    request = e.ApprovalRequestEvent(
        request_id="r1",
        tool_call_id="c3",
        tool="search_replace",
        arguments={"file_path": "textkit/slugs.py", "edits": []},
        summary="search_replace textkit/slugs.py",
        rule="permission",
        reason="search_replace needs your approval",
        covers=("search_replace: textkit/**",),
        diff=DIFF,
        edits=True,
        preview=e.DiffDisplay(files=(e.WrittenFile(path="textkit/slugs.py", added=2, removed=1),)),
    )
    await _ask_for(on, request)
    await on.begin(on.app.chat_screen.requests.user_input, QUESTIONS)


async def _ask_for(on: Stage, request: e.ApprovalRequestEvent) -> None:
    await on.see(structs.replace(request, **CHAT))
    await on.begin(on.app.chat_screen.requests.approve, request)


QUESTIONS = (
    Question(
        question="Which letters shall keep more than their base?",
        header="letters",
        options=[
            Choice(label="German", description="ä, ö, ü become ae, oe, ue; ß becomes ss"),
            Choice(label="Danish", description="å becomes aa, ø becomes oe"),
            Choice(label="none", description="every letter loses its accent"),
        ],
        multi_select=True,
    ),
    Question(
        question="May a slug be empty?",
        options=[Choice(label="yes"), Choice(label="no", description="then slugify() raises ValueError")],
    ),
)


async def question(on: Stage) -> None:
    """An agent asks the person."""
    await on.see(*TALK[:8])
    await on.begin(on.app.chat_screen.requests.user_input, QUESTIONS)
    await on.press("1")


async def decision(on: Stage) -> None:
    """A running plan waits for a decision."""
    await running(on)
    opened = e.PlanDecisionEvent(
        plan_id=PLAN,
        ts=NOW - 12.0,
        decision_id="ellipsis",
        question="What stands at the end of a shortened text?",
        options=("one", "three", "none"),
        labels=("one character", "three dots", "nothing"),
        descriptions=("… counts as one of the length", "... counts as three", "the text is cut, and that is all"),
        default=("one",),
        timeout_seconds=300.0,
        step_id="shorten",
    )
    await on.see(opened)
    await on.begin(on.app.chat_screen.requests.decider, opened)


# --- plans

GOAL = "Give textkit a slugify() and a shorten() function, each tested and documented."


def _order(prompt: str, *verify: str, **fields: Any) -> WorkOrder:
    return WorkOrder(prompt=prompt, verify=verify, max_tokens=fields.pop("max_tokens", 60_000), max_turns=20, **fields)


STEPS = (
    StepOutline(id="survey", title="Learn how textkit is built", mode="research", order=_order("Look.")),
    StepOutline(
        id="design", title="Decide on the functions", mode="design", depends_on=("survey",), order=_order("Decide.")
    ),
    StepOutline(
        id="slugify",
        title="Write slugify()",
        mode="code",
        depends_on=("design",),
        order=_order(
            "Write it.", "python3 -m unittest tests.test_slugs", writes=("textkit/slugs.py", "tests/test_slugs.py")
        ),
    ),
    StepOutline(
        id="shorten",
        title="Write shorten()",
        mode="code",
        depends_on=("design",),
        workspace="worktree",
        order=_order("Write it.", "python3 -m unittest tests.test_short", decision="ellipsis", retries=1),
    ),
    StepOutline(
        id="test",
        title="Run all tests",
        mode="test",
        depends_on=("slugify", "shorten"),
        order=WorkOrder(command="python3 -m unittest discover --verbose", timeout_seconds=60.0),
    ),
    StepOutline(
        id="docs",
        title="Document both functions",
        mode="docs",
        depends_on=("test",),
        order=_order("Say it.", "python3 -m doctest README.md", on_failure="replan"),
    ),
)
PROMPT = """\
# Write shorten()

Write `shorten()` and its tests as designed:

```python
def shorten(text: str, most: int, *, end: str = "…") -> str:
    \"\"\"Return the text, or its first characters and a sign that there are more.\"\"\"
```

- it never returns more than `most` characters
- it breaks between words where that is possible
"""
EXPECTED = PlanExpectation(
    seconds=235.0,
    tokens=96_000,
    cost_usd=0.22,
    at_once=2,
    steps={
        step.id: Expectation(seconds=seconds, tokens=0 if step.id == "test" else 16_000, cost_usd=0.04)
        for step, seconds in zip(STEPS, (31.0, 26.0, 70.0, 110.0, 8.0, 42.0), strict=True)
    },
)
PROPOSED = PlanProposedEvent(
    plan_id=PLAN,
    ts=STARTED - 30.0,
    goal=GOAL,
    document={
        "version": 1,
        "goal": GOAL,
        "steps": [
            {"id": step.id, "title": step.title, "prompt": PROMPT if step.id == "shorten" else "Do it."}
            for step in STEPS
        ],
        "decisions": [
            {
                "id": "ellipsis",
                "question": "What stands at the end of a shortened text?",
                "options": [{"id": "one", "label": "one character"}, {"id": "three", "label": "three dots"}],
            }
        ],
    },
    steps=STEPS,
    estimate=PlanBounds(
        steps=6,
        model_steps=5,
        width=2,
        critical_path=("survey", "design", "shorten", "test", "docs"),
        max_turns=120,
        max_tokens=360_000,
        max_price=1.44,
        notes=("design has no check",),
    ),
    expected=EXPECTED,
    commands=(
        PlannedCommand(step_id="slugify", command="python3 -m unittest tests.test_slugs", purpose="verify"),
        PlannedCommand(step_id="shorten", command="python3 -m unittest tests.test_short", purpose="verify"),
        PlannedCommand(step_id="test", command="python3 -m unittest discover --verbose"),
        PlannedCommand(step_id="docs", command="python3 -m doctest README.md", purpose="verify"),
    ),
)


EARLIER: tuple[Event, ...] = (
    e.UserMessageEvent(text="What does textkit lack most?", message_index=0, **CHAT),
    e.AssistantEvent(
        message_id="0",
        text="A function for **slugs**, and one that **shortens** a text between words.",
        message_index=1,
        **CHAT,
    ),
)


PLANNER: dict[str, Any] = {"source": "planner", "session_id": "planner"}
DRAFT = json.dumps({
    "value": {
        "steps": [
            {"id": step.id, "title": step.title, "mode": step.mode, "depends_on": step.depends_on} for step in STEPS
        ]
    }
})


def _looked(number: int, tool: str, content: str, seconds: float = 0.0, **arguments: str) -> tuple[Event, Event]:
    call: dict[str, Any] = {"tool_call_id": f"p{number}", "tool": tool, "ts": NOW - 20.0, **PLANNER}
    words = " ".join((tool, *arguments.values()))
    return (
        e.ToolCallEvent(arguments=arguments, summary=words, **call),
        e.ToolResultEvent(status="ok", content=content, duration_s=seconds, **call),
    )


PLANNING: tuple[Event, ...] = (
    e.SessionStartedEvent(workspace="textkit", model="devstral-2", agent="planner", ts=NOW - 23.0, **PLANNER),
    e.PromptStartedEvent(prompt_id="p", ts=NOW - 23.0, **PLANNER),
    e.ModelStartedEvent(
        message_id="p1", model="devstral-2", context_tokens=3_000, context_limit=256_000, ts=NOW - 23.0, **PLANNER
    ),
    e.ModelEndedEvent(message_id="p1", model="devstral-2", status="ok", ts=NOW - 21.0, **PLANNER),
    *_looked(1, "read_file", "import re\n", path="textkit/slugs.py"),
    *_looked(2, "read_file", "import re\n", path="textkit/short.py"),
    *_looked(3, "grep", "a:1:def\nb:2:def\nb:9:def", 0.1, pattern="def slugify"),
    *_looked(4, "grep", "a:1:test\n", 0.1, pattern="unittest"),
    *_looked(5, "read_file", "import unittest\n", path="tests/test_slugs.py"),
    e.UsageEvent(
        model="devstral-2", prompt_tokens=16_200, completion_tokens=800, cost_usd=0.04, ts=NOW - 12.0, **PLANNER
    ),
)
ASKED_AGAIN = e.ModelStartedEvent(
    message_id="p2", model="devstral-2", context_tokens=9_000, context_limit=256_000, ts=NOW - 12.0, **PLANNER
)


def _written(text: str, ts: float) -> e.ToolArgumentsEvent:
    return e.ToolArgumentsEvent(message_id="p2", index=0, tool="hand_in_plan", text=text, ts=ts, **PLANNER)


async def _type_plan(on: Stage) -> None:
    on.app.chat_screen.say("/plan Give textkit a slugify() and a shorten()", "typed")
    on.app.chat_screen.plannings.begin(GOAL)


async def planning(on: Stage) -> None:
    """A plan is being written: three steps are complete, and a fourth has begun."""
    await _type_plan(on)
    half = DRAFT.index("shorten()")
    await on.see(*PLANNING, ASKED_AGAIN, _written(DRAFT[:20], NOW - 9.0), _written(DRAFT[20:half], NOW - 0.5))


async def planned(on: Stage) -> None:
    """The plan is written and proposed."""
    await planning(on)
    usage = e.UsageSum(prompt_tokens=20_000, completion_tokens=1_000, calls=3)
    ended = e.PromptEndedEvent(
        prompt_id="p", outcome="completed", usage=usage, cost_usd=0.05, duration_s=41.0, ts=NOW, **PLANNER
    )
    await on.see(ended)
    await on.begin(on.app.chat_screen.ask_about_plan, PROPOSED, "{}")


async def not_planned(on: Stage) -> None:
    """The model handed in an invalid plan three times."""
    await planning(on)
    ended = e.PromptEndedEvent(
        prompt_id="p",
        outcome="failed",
        reason="output",
        detail="the plan: steps[2].check: must be a list (after 3 tries)",
        cost_usd=0.05,
        duration_s=41.0,
        ts=NOW,
        **PLANNER,
    )
    await on.see(ended)


async def proposal(on: Stage) -> None:
    """A plan is proposed."""
    await on.see(*EARLIER)
    await on.begin(on.app.chat_screen.ask_about_plan, PROPOSED, "{}")


async def proposal_step(on: Stage) -> None:
    """One step of the proposal is open."""
    await proposal(on)
    await on.press("down", "down", "down", "enter")


def _moved(step_id: str, status: str, previous: str = "pending", **fields: Any) -> e.PlanStepUpdateEvent:
    known: dict[str, Any] = {"plan_id": PLAN, "ts": STARTED, "title": step_id, "step_id": step_id}
    return e.PlanStepUpdateEvent(status=status, previous=previous, **{**known, **fields})


def _by(step_id: str) -> dict[str, Any]:
    return {
        "plan_id": PLAN, "session_id": SESSION, "subagent_id": f"a-{step_id}", "subagent_step_id": step_id, "ts": NOW - 40.0
    }  # fmt: skip


def _began(step_id: str, mode: str) -> e.SubAgentStartedEvent:
    return e.SubAgentStartedEvent(
        title=step_id, mode=mode, model="devstral-2", tools=(), max_tokens=60_000, max_turns=20, **_by(step_id)
    )


_BEGUN = e.PlanStartedEvent(
    plan_id=PLAN,
    goal=GOAL,
    steps=STEPS,
    max_parallel_steps=2,
    max_tokens=360_000,
    ts=STARTED,
    session_id=SESSION,
    expected=EXPECTED,
)
RUNNING: tuple[Event, ...] = (
    _BEGUN,
    _moved("survey", "in_progress"),
    _began("survey", "research"),
    _spent(12_000, 0.03, **_by("survey")),
    e.SubAgentFinishedEvent(
        outcome="completed", reason=None, tokens=12_600, turns=4, duration_s=31.0, **_by("survey")
    ),
    _moved("survey", "completed", "in_progress", duration_s=31.0, ts=STARTED + 31, work=WorkDone(turns=4)),
    _moved("design", "in_progress", ts=STARTED + 31),
    _began("design", "design"),
    _spent(9_000, 0.02, **_by("design")),
    e.SubAgentFinishedEvent(outcome="completed", reason=None, tokens=9_450, turns=2, duration_s=24.0, **_by("design")),
    _moved("design", "completed", "in_progress", duration_s=24.0, ts=STARTED + 55),
    _moved("slugify", "in_progress", ts=STARTED + 56),
    _began("slugify", "code"),
    _spent(21_000, 0.06, **_by("slugify")),
    _moved("shorten", "in_progress", ts=STARTED + 57),
    _began("shorten", "code"),
    e.UserMessageEvent(text=PROMPT, **_by("shorten")),
    e.AssistantEvent(message_id="s1", text="I look at how `slugs.py` is laid out first.", tool_calls=1, **_by("shorten")),
    e.ToolCallEvent(tool_call_id="s1", tool="read_file", arguments={}, summary="read_file textkit/slugs.py", **_by("shorten")),
    e.ToolResultEvent(tool_call_id="s1", tool="read_file", status="ok", content="import re\n", **_by("shorten")),
    e.ModelStartedEvent(
        message_id="s2", model="devstral-2", context_tokens=14_000, context_limit=256_000, **_by("shorten")
    ),
    _spent(17_000, 0.05, **_by("shorten")),
    e.ToolCallEvent(
        tool_call_id="s2", tool="search_replace", arguments={}, summary="search_replace textkit/short.py", **_by("shorten")
    ),
    e.ToolResultEvent(
        tool_call_id="s2",
        tool="search_replace",
        status="ok",
        content="written",
        diff='--- /dev/null\n+++ b/textkit/short.py\n@@ -0,0 +1,3 @@\n+def shorten(text: str, most: int) -> str:\n'
        '+    """Return the text, or its first characters."""\n+    return text[:most]\n',
        **_by("shorten"),
    ),
    e.ToolCallEvent(
        tool_call_id="s3", tool="bash", arguments={}, summary="bash python3 -m unittest tests.test_short", **_by("shorten")
    ),
    e.ToolStreamEvent(tool_call_id="s3", tool="bash", text="test_a_word_is_whole ... ok\n", **_by("shorten")),
    e.ToolCallEvent(
        tool_call_id="g1", tool="grep", arguments={}, summary="grep 'normalize' in textkit", **_by("slugify")
    ),
)  # fmt: skip


async def running(on: Stage) -> None:
    """A plan runs: two steps are done, and two run side by side."""
    await on.see(*EARLIER, *RUNNING)
    await on.see(
        e.UserMessageEvent(text="What does NFKD mean, while we wait?", message_index=2, **LATER),
        e.AssistantEvent(
            message_id="9",
            text="*Normalization Form KD*: letters are taken apart, `é` into `e` and an accent.",
            message_index=3,
            **LATER,
        ),
        _spent(31_000, 0.02, **CHAT),
    )


def _at(seconds: float, step_id: str) -> dict[str, Any]:
    return {**_by(step_id), "ts": STARTED + seconds}


def _call(seconds: float, step_id: str, number: int, tool: str, words: str, **given: Any) -> e.ToolCallEvent:
    return e.ToolCallEvent(
        tool_call_id=f"{step_id}-{number}", tool=tool, summary=words, arguments=given, **_at(seconds, step_id)
    )


def _done(seconds: float, step_id: str, number: int, tool: str, content: str = "", **fields: Any) -> e.ToolResultEvent:
    fields = {"status": "ok", **fields}
    return e.ToolResultEvent(
        tool_call_id=f"{step_id}-{number}", tool=tool, content=content, **fields, **_at(seconds, step_id)
    )


def _starts(seconds: float, step_id: str, mode: str) -> tuple[Event, ...]:
    return (
        _moved(step_id, "in_progress", ts=STARTED + seconds),
        structs.replace(_began(step_id, mode), ts=STARTED + seconds),
    )


def _ends(seconds: float, step_id: str, took: float, tokens: int) -> tuple[Event, ...]:
    return (
        _spent(tokens, tokens / 300_000, **_at(seconds, step_id)),
        e.SubAgentFinishedEvent(
            outcome="completed", reason=None, tokens=tokens, turns=3, duration_s=took, **_at(seconds, step_id)
        ),
        _moved(step_id, "completed", "in_progress", duration_s=took, ts=STARTED + seconds, work=WorkDone(turns=3)),
    )


_CHECK = "python3 -m unittest tests.test_short"
WATCHED: tuple[tuple[float, tuple[Event, ...]], ...] = (
    (
        2.0,
        (
            structs.replace(_BEGUN, max_tokens=0),
            *_starts(0, "survey", "research"),
            _call(1, "survey", 1, "read_file", "read_file textkit/words.py"),
        ),
    ),
    (6.0, (*_ends(6, "survey", 6.0, 6_200), *_starts(6, "design", "design"))),
    (
        12.0,
        (
            *_ends(10, "design", 4.0, 4_100),
            *_starts(10, "slugify", "code"),
            *_starts(10, "shorten", "code"),
            _call(11, "slugify", 1, "write_file", "write_file textkit/slugs.py (430 bytes)"),
            _call(12, "shorten", 1, "write_file", "write_file textkit/short.py (400 bytes)"),
        ),
    ),
    (
        17.0,
        (
            _done(13, "slugify", 1, "write_file", "written"),
            _done(13, "shorten", 1, "write_file", "written"),
            _call(16, "slugify", 2, "write_file", "write_file tests/test_slugs.py (692 bytes)"),
            _call(16, "shorten", 2, "command", f"verify: {_CHECK}", command=_CHECK, purpose="verify"),
        ),
    ),
    (
        20.0,
        (
            _done(19, "shorten", 2, "command", "AssertionError: 'a…' != 'a b…'", status="error"),
            _call(20, "shorten", 3, "search_replace", "search_replace textkit/short.py"),
        ),
    ),
    (
        24.0,
        (
            *_ends(22, "slugify", 12.0, 9_800),
            _done(22, "shorten", 3, "search_replace", "written"),
            _call(23, "shorten", 4, "command", f"verify: {_CHECK}", command=_CHECK, purpose="verify"),
        ),
    ),
    (
        28.0,
        (
            _done(26, "shorten", 4, "command", "OK"),
            *_ends(26, "shorten", 16.0, 14_300),
            _moved("test", "in_progress", ts=STARTED + 26),
            _call(26, "test", 1, "command", "python3 -m unittest discover", command="python3 -m unittest discover"),
        ),
    ),
    (
        33.0,
        (
            _done(29, "test", 1, "command", "OK"),
            _moved("test", "completed", "in_progress", duration_s=3.0, ts=STARTED + 29, work=WorkDone()),
            *_starts(29, "docs", "docs"),
            _call(31, "docs", 1, "search_replace", "search_replace README.md"),
        ),
    ),
    (
        36.0,
        (
            _done(32, "docs", 1, "search_replace", "written"),
            *_ends(36, "docs", 7.0, 5_200),
            e.PlanCompletedEvent(
                plan_id=PLAN,
                status="completed",
                counts={"completed": 6},
                duration_s=36.0,
                ts=STARTED + 36,
                session_id=SESSION,
            ),
        ),
    ),
)
"""A plan from its start to its end: the events, and the second after its start at which the person looks."""


async def fleet(on: Stage) -> None:
    """All agents of the running plan."""
    await running(on)
    await on.press("f2")
    await on.until(lambda: on.app.screen is not on.app.chat_screen)


CHECKED = "python3 -m unittest tests.test_short"
FAILURE = """\
test_a_word_is_whole (tests.test_short.Short) ... ok
test_the_end_is_marked (tests.test_short.Short) ... FAIL

======================================================================
FAIL: test_the_end_is_marked (tests.test_short.Short)
----------------------------------------------------------------------
AssertionError: 'a long te' != 'a long t…'

Ran 2 tests in 0.001s
FAILED (failures=1)
"""


async def failed(on: Stage) -> None:
    """A step has failed for good, since its check failed twice."""
    host = {**_by("shorten"), "subagent_id": None}
    await running(on)
    for number in range(2):
        known: dict[str, Any] = {"tool_call_id": f"check {number}", "tool": "command", **host}
        await on.see(
            e.ToolCallEvent(arguments={"command": CHECKED, "purpose": "verify"}, **known),
            e.ToolResultEvent(
                status="error", content=FAILURE, display=e.CommandDisplay(command=CHECKED, exit_code=1), **known
            ),
        )
    await on.see(
        e.AssistantEvent(
            message_id="s9",
            text="I can't go on.\n\nThe test wants an ellipsis in the length; the README says beside it. Which one?",
            **_by("shorten"),
        ),
        _moved("shorten", "failed", "in_progress", reason="verify", ts=NOW - 2.0),
    )


async def leaving(on: Stage) -> None:
    """The person leaves while a plan runs."""
    await running(on)
    await on.press("ctrl+d")


async def paused(on: Stage) -> None:
    """A resumed conversation that was left while a plan ran: one plan has ended, and one is paused."""
    earlier = View()
    left: dict[str, Any] = {"plan_id": LEFT.plan_id, "session_id": SESSION}
    steps = tuple(e.StepOutline(id=name, title=f"Do {name}", mode="code") for name in ("survey", "totals", "export"))
    for event in (
        *(event for _, events in WATCHED for event in events),
        e.PlanStartedEvent(goal=LEFT.goal, steps=steps, ts=LEFT.updated - 40.0, **left),
        e.PlanPausedEvent(reason="left", ts=LEFT.updated, **left),
    ):
        apply(earlier, event)
    saved = SavedPart((UserMessage(content="Fix the tests"), AssistantMessage(content="Both tests pass.")))
    about = structs.replace(ScriptedChat().about, session_id=SESSION, saved=saved)
    on.app.chat_screen.opened(ScriptedChat(about=about), "", [PastPlan(plan, None) for plan in earlier.plans.values()])
    ahead = {LEFT.plan_id: e.Expectation(seconds=50.0, tokens=40_000, cost_usd=0.11)}
    project = structs.replace(PROJECT, left=[structs.replace(LEFT, status=PlanStatus.PAUSED, reason="left")])
    on.app.chat_screen.start.update(structs.replace(SEAT, project=structs.replace(project, to_go=ahead)))
    await on.settle()


async def transcript(on: Stage) -> None:
    """One step of the running plan is open."""
    await fleet(on)
    await on.press("down", "enter")
    await on.until(lambda: isinstance(on.app.screen, TranscriptScreen))


CROWD = "crowd"


def _of(step_id: str, ago: float = 20.0) -> dict[str, Any]:
    return {
        "plan_id": CROWD, "session_id": SESSION, "subagent_id": f"c-{step_id}", "subagent_step_id": step_id, "ts": NOW - ago
    }  # fmt: skip


def _crowded() -> Iterator[Event]:
    """Yield the events of a plan whose nine agents are in different states."""
    ids = ("totals", "receipt", "export", "api", "search", "mail", "auth", "docs", "survey")
    titles = dict.fromkeys(ids, "Do it") | {"totals": "Fix total(): counts and discounts"}
    steps = tuple(StepOutline(id=one, title=titles[one], mode="code", order=_order("Do it.")) for one in ids)
    goal = "Make receipts and exports right"
    yield e.PlanStartedEvent(
        plan_id=CROWD, goal=goal, steps=steps, max_parallel_steps=9, ts=NOW - 100.0, session_id=SESSION
    )
    for at, one in enumerate(ids):
        began = NOW - 95.0 if one == "survey" else NOW - 90.0 + 5 * at
        yield _moved(one, "in_progress", plan_id=CROWD, ts=began)
        yield structs.replace(
            e.SubAgentStartedEvent(
                title=one, mode="code", model="devstral-2", tools=(), max_tokens=60_000, max_turns=20
            ),
            **_of(one, NOW - began),
        )
        yield _spent(3_000 + 900 * at, 0.01, **_of(one))
        yield from _did(one, 1, "read_file", f"read_file shop/{one}.py", content="import re\n" * 25)

    yield e.AssistantEvent(
        message_id="t",
        text="The count is ignored, and the *discount* is taken as an amount. The tests want a share.",
        **_of("totals"),
    )
    written = e.DiffDisplay(files=(e.WrittenFile(path="shop/cart.py", added=2, removed=2),))
    diff = "--- a/shop/cart.py\n+++ b/shop/cart.py\n@@ -1 +1,2 @@\n-    x\n+    total = sum(item.price * item.count\n+                for item in self.items)\n"
    yield from _did("totals", 2, "search_replace", "search_replace shop/cart.py", display=written, diff=diff)
    check = {"command": "python3 -m unittest tests.test_cart", "purpose": "verify"}
    host: dict[str, Any] = {**_of("totals"), "subagent_id": None}
    yield e.ToolCallEvent(tool_call_id="check", tool="command", arguments=check, **host)
    yield e.ToolResultEvent(
        tool_call_id="check",
        tool="command",
        status="error",
        content="E\nAssertionError: 9.9 != 9.0\nFAILED (failures=1)\n",
        **host,
    )
    yield _calls("totals", 3, "search_replace", "search_replace shop/cart.py", ago=3.0)

    yield from _did("receipt", 2, "grep", "grep 'format' in shop")
    command = "python3 -m shop.report --all > out/receipts.txt"
    yield _calls("receipt", 3, "bash", f"bash {command}")
    yield e.ApprovalRequestEvent(
        request_id="r-receipt", tool_call_id="receipt3", tool="bash", arguments={"command": command}, rule="ask",
        reason="bash needs your approval", preview=e.CommandDisplay(command=command), covers=("bash: python3",), confined=True,
        **_of("receipt", 8.0),
    )  # fmt: skip
    yield e.PlanDecisionEvent(
        plan_id=CROWD, decision_id="format", question="Which format should an export have?", options=("csv", "json"),
        labels=("CSV", "JSON"), descriptions=("opens in a spreadsheet", "for other programs"), step_id="export", ts=NOW - 8.0,
    )  # fmt: skip
    yield e.AssistantDeltaEvent(
        message_id="a", text="Fourteen handlers, two of them without a test. ", **_of("api", 1.0)
    )
    yield e.ToolArgumentsEvent(
        tool_call_id="api2",
        message_id="a",
        index=0,
        tool="write_file",
        text='{"path": "tests/test_routes.py"',
        **_of("api", 1.0),
    )
    yield _calls("search", 2, "bash", "bash python3 -m pytest tests/test_search.py", ago=19.0)
    yield e.ToolStreamEvent(
        tool_call_id="search2",
        tool="bash",
        text="collected 18 items\ntests/test_search.py ....F..\n",
        **_of("search", 14.0),
    )
    yield e.ModelStartedEvent(
        message_id="m", model="devstral-2", context_tokens=9_000, context_limit=128_000, **_of("mail", 9.0)
    )
    yield e.ReasoningDeltaEvent(
        message_id="m",
        text="The queue is drained in one go; a batch of 50 would keep the lock short.",
        **_of("mail", 2.0),
    )
    yield _calls("auth", 2, "search_replace", "search_replace src/auth.py", ago=2.0)
    yield _moved(
        "docs",
        "failed",
        "in_progress",
        plan_id=CROWD,
        ts=NOW - 4.0,
        reason="verify",
        detail="README.md: 2 links lead nowhere",
    )
    yield e.AssistantEvent(message_id="s", text="Carts live in shop/cart.py. Totals ignore counts.", **_of("survey"))
    yield e.SubAgentFinishedEvent(
        outcome="completed", reason=None, tokens=6_600, turns=4, duration_s=6.0, **_of("survey", 80.0)
    )
    yield _moved("survey", "completed", "in_progress", plan_id=CROWD, ts=NOW - 80.0, duration_s=6.0)


def _calls(step_id: str, number: int, tool: str, summary: str, ago: float = 20.0) -> e.ToolCallEvent:
    return e.ToolCallEvent(
        tool_call_id=f"{step_id}{number}", tool=tool, arguments={}, summary=summary, **_of(step_id, ago)
    )


def _did(step_id: str, number: int, tool: str, summary: str, content: str = "done", **fields: Any) -> Iterator[Event]:
    yield _calls(step_id, number, tool, summary)
    yield e.ToolResultEvent(
        tool_call_id=f"{step_id}{number}", tool=tool, status="ok", content=content, **fields, **_of(step_id)
    )


async def fleet_asking(on: Stage) -> None:
    """Many agents, some of which ask."""
    await on.see(*sorted(_crowded(), key=lambda event: event.ts))
    requests = on.app.chat_screen.requests
    for asked in list(on.app.store.view.requests.values()):
        if isinstance(asked.event, e.ApprovalRequestEvent):
            await on.begin(requests.approve, asked.event)
        elif isinstance(asked.event, e.PlanDecisionEvent):
            await on.begin(requests.decider, asked.event)
    await on.press("f2")
    await on.until(lambda: on.app.screen is not on.app.chat_screen)
    await on.until(lambda: any(panel.size.height for panel in on.app.screen.query(PanelFrame)))


BESIDE: tuple[Event, ...] = (
    structs.replace(e.BackgroundStartedEvent(handle="b1", command="npm run dev", **CHAT), ts=NOW - 252.0),
    _called(6, "write_file", "write_file textkit/short.py"),
    _ended(
        6,
        "write_file",
        "written",
        files_changed=("textkit/short.py",),
        display=e.DiffDisplay(files=(e.WrittenFile(path="textkit/short.py", added=12, removed=3),)),
    ),
)
"""Further things that the overview shows."""


async def overview(on: Stage) -> None:
    """The overview is open, with all its parts."""
    await on.see(*TALK, *ENDED, *BESIDE)
    if not on.app.chat_screen.query_one(SidePanel).display:
        await on.press("ctrl+t")


# --- screens over the chat


async def review(on: Stage) -> None:
    """A plan's changes, with one file accepted, one rejected, and a comment."""
    first, _, export, _ = SHOP
    draft = ReviewDraft(accepted={key_of(first)}, rejected={key_of(export): False})
    draft.comments[key_of(first), 11] = 11, "round half up, not to even: money"
    await on.cover(ReviewScreen(FakeReview().as_review, draft))


async def picker(on: Stage, picker: Picker) -> None:
    """A picker is open over a conversation."""
    await on.see(*TALK, *ENDED)
    screen = PickerScreen(picker)
    await on.cover(screen)
    await on.until(lambda: all(one.is_finished for one in on.app.workers if one.node is screen))


async def sessions(on: Stage) -> None:
    """Saved sessions to choose from."""
    said = {
        "5e1f9c02": ("Slugs keep their letters", "2 h"),
        "b07c1e44": ("How is textkit released?", "open elsewhere"),
        "0c9d77aa": ("A parser for dates without a year, and what it does about leap days in February", "1 d"),
        "77fe0b13": ("(no title)", "4 d"),
    }
    rows = [PickRow(f"/resume {one}", title, fact) for one, (title, fact) in said.items()]
    facts = [("folder", "~/textkit"), ("model", "orion-large"), ("total", "41k tok, $0.12")]
    last = [[], [("> why does a slug lose its ü?", "")], [], [("It is no ASCII: it was dropped. Now it stays.", "")]]
    preview = partial(titled, facts=facts)
    await picker(
        on,
        Picker(
            title="Sessions",
            rows=lambda _: rows,
            preview=lambda row, _: [*preview(row.title), *last],
            modes=[("this folder", ""), ("all folders", "")],
            enter="go on with it",
        ),
    )


class Answered:
    """A conversation that changed files, as far as rewinding needs it."""

    messages = (UserMessage("Explain how this is built"), UserMessage("Fix the tests"), UserMessage("Round half up"))
    asked_at: Mapping[int, float] = {}
    is_busy = False

    def __init__(self) -> None:
        self.conversation = self.session = self.setup = self.engine = self
        self.environ = self.own_places = None

    def going_back(self, index: int, *_: object) -> list[FileBack]:
        was = [
            FileBack(path="shop/cart.py", before="a\nb\n", now="a\nc\nd\n"),
            FileBack(path="shop/export.py", before=None, now="new\n"),
        ]
        return was if index < 2 else []


async def rewind(on: Stage) -> None:
    """A choice of prompts to rewind to."""
    made = await rewind_picker(cast("Talk", Answered()))
    assert made is not None
    await picker(on, made)
    await on.press("down")
    await on.until(lambda: all(one.is_finished for one in on.app.workers if one.node is on.app.screen))


async def themes(on: Stage) -> None:
    """A theme is previewed."""
    make = screen_commands(on.app.chat_screen)["theme"].picker
    assert make is not None
    made = await make(cast("Talk", None))
    assert made is not None
    await picker(on, made)


async def topics(on: Stage) -> None:
    """The help, with a topic selected."""
    await on.see(*TALK, *ENDED)
    await on.press("f1", "down")
    await on.until(lambda: all(one.is_finished for one in on.app.workers if one.node is on.app.screen))


async def completion(on: Stage) -> None:
    """The person is typing a slash command."""
    await on.see(*TALK, *ENDED)
    await on.press(*"/re")
    await on.until(lambda: on.app.screen.query_one(CompletionPopup).display)


async def completion_of_file(on: Stage) -> None:
    """The person is typing a file's name."""
    await on.see(*TALK, *ENDED)
    await on.press(*"look at @slu")
    await on.until(lambda: on.app.screen.query_one(CompletionPopup).display)


async def palette(on: Stage) -> None:
    """All commands and actions."""
    await on.see(*TALK, *ENDED)
    await on.press("ctrl+p", "down")


async def setup(on: Stage, step: SetupStep = SetupStep.WELCOME) -> None:
    """The first use: the welcome, the providers, or the key."""
    host = Host(home=on.folder / "home", environ={"HOME": str(on.folder)})
    screen = SetupScreen(lambda: FirstUse(host, on.folder))
    await on.cover(screen)
    if step is not SetupStep.WELCOME:
        await on.press("enter")
        await on.until(lambda: screen.step is SetupStep.PROVIDER)
    if step is SetupStep.KEY:
        await on.press("enter")


providers = partial(setup, step=SetupStep.PROVIDER)
key = partial(setup, step=SetupStep.KEY)
