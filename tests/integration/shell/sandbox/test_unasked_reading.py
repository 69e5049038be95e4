"""Lines that run without approval because they can only read: decided, run, and asked about if that was not enough."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from ipc.events import ApprovalDecisionEvent, ApprovalRequestEvent
from ipc.sink import MemorySink
from tests.fakes.tools import ScriptedApprover, call
from tests.integration.shell.sandbox.cell import Cell
from vibe.core.config.models import VibeConfig
from vibe.core.messages import ToolMessage
from vibe.core.session.write_turn import Tell
from vibe.core.tools.base import InvokeContext
from vibe.core.tools.discovery import ToolSources
from vibe.core.tools.executor import ToolBatch, ToolExecutor
from vibe.core.tools.gate import Approvals
from vibe.core.tools.manager import ToolManager
from vibe.core.tools.permissions import ApprovalMode
from vibe.core.tools.ports import ApprovalAnswer
from vibe.core.tools.workspace import Workspace
from vibe.shell.sandbox.confinement import Confinement
from vibe.shell.sandbox.settings import SandboxConfig, SandboxMode

YES, NO = ApprovalAnswer(allow=True), ApprovalAnswer(allow=False, reason="not today")
UNASKED = "[ran without approval in a read-only sandbox"


class Counted:
    """Counts write turns."""

    taken = 0

    @asynccontextmanager
    async def held(self, tell: Tell) -> AsyncGenerator[None]:  # noqa: ARG002  nobody is waited for
        self.taken += 1
        yield


class Desk:
    """An agent's tools in a cell, with all the events of its calls."""

    def __init__(
        self, cell: Cell, approvals: Approvals | None = None, confinement: Confinement | None = None, **settings: object
    ) -> None:
        self.sink = MemorySink()
        self.turns = Counted()
        self.executor = ToolExecutor(
            tools=ToolManager(ToolSources(root=cell.root), VibeConfig(tools={"bash": dict(settings)})),
            context=InvokeContext(
                workspace=Workspace(root=cell.root),
                environ=cell.environ,
                confinement=confinement or cell.confinement,
            ),
            approvals=approvals or Approvals(),
            sink=self.sink,
            turns=self.turns.held,
        )

    async def say(self, line: str, **arguments: Any) -> ToolMessage:
        return (await self.run(line, **arguments)).messages[0]

    async def run(self, line: str, **arguments: Any) -> ToolBatch:
        return await self.executor.run_all([call("1", "bash", command=line, **arguments)], lambda _message: None)

    @property
    def questions(self) -> list[str]:
        return [event.reason for event in self.sink.events if isinstance(event, ApprovalRequestEvent)]


async def at_desk(cell: Cell, *given: Any, **settings: Any) -> Desk:
    return await anyio.to_thread.run_sync(lambda: Desk(cell, *given, **settings))


@pytest.fixture
def bubblewrap(bubblewrap: Cell) -> Cell:
    (bubblewrap.root / "src").mkdir()
    (bubblewrap.root / "a.txt").write_text("one\ntwo\n")
    (bubblewrap.root / "src" / "b.txt").write_text("three\n")
    (bubblewrap.root / ".env").write_text("KEY=CANARY\n")
    return bubblewrap


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ("wc -l $(find . -name '*.txt' | sort)", "3 total"),
        ("find . -name '*.txt' | sort | xargs grep -c e", "./src/b.txt:1"),
        ("for f in $(ls src); do cat src/$f; done", "three"),
        ("grep -r e .", "a.txt:one"),
        ("cat $(echo a.txt) <<< x", "two"),
        ("find . -name 'a*' -exec cat {} +", "one"),
        ("x=$(cat a.txt | wc -l); echo ${x:-none}", "2"),
        ('while read -r f; do cat "$f"; done < <(find src -type f)', "three"),
    ],
)
async def test_a_line_of_readers_that_is_not_wholly_understood_runs_unasked(
    line: str, printed: str, bubblewrap: Cell
) -> None:
    desk = await at_desk(bubblewrap)
    message = await desk.say(line)
    assert message.status == "ok"
    assert printed in message.content
    assert UNASKED in message.content
    assert "CANARY" not in message.content


@pytest.mark.parametrize(
    "line",
    [
        "cat .env", "cat $(echo x) .env", "cat .e*", "cat ../home/.netrc $(true)", "echo $MISTRAL_API_KEY", "echo ${MISTRAL_API_KEY}", "for x in $HIDDEN; do echo $x; done",
        "x=HIDDEN; echo ${!x}", "ls > new", "cat a.txt | tee new", "python3 x.py", "touch new", "./x.sh", "$(echo ls)", "ls; npm test", "wc -l $(npm test)", "xargs rm < a.txt",
        "find . -exec rm {} +", "find . -exec sh -c 'ls' \\;", "f() { ls; }; f", "PATH=. ls $(pwd)", "export X=1; ls $(pwd)", "ls &", "bash -c 'cat a.txt'", "eval ls", "git push $(pwd)",
        "git commit -m $(pwd)", "cat /etc/passwd $(pwd)", "ls (", "cat $(sudo ls)", "trap 'ls' EXIT", "npm_config_x=1; ls $(pwd)", "http_proxy=x; ls $(pwd)", "",
    ],
)  # fmt: skip
async def test_what_runs_more_or_names_what_is_hidden_is_asked_about(line: str, bubblewrap: Cell) -> None:
    desk = await at_desk(bubblewrap)
    message = await desk.say(line)
    assert message.status != "ok"
    assert sorted(path.name for path in bubblewrap.root.iterdir() if path.name != ".git") == [".env", "a.txt", "src"]


async def test_all_lets_any_program_read(bubblewrap: Cell) -> None:
    (bubblewrap.root / "x.py").write_text("print(open('a.txt').read(), __import__('os').environ)")
    desk = await at_desk(bubblewrap, read_only_sandbox="all")
    message = await desk.say("python3 x.py")
    assert message.status == "ok"
    assert "one" in message.content
    assert "SECRET" not in message.content
    for line in ("vim a.txt", "sudo ls", "python3 x.py; less a.txt"):
        assert (await desk.say(line)).status == "denied"


@pytest.mark.parametrize("line", ["sort -o new a.txt", "sed -n -i p a.txt", "find src -name b.txt -delete"])
async def test_what_fails_for_want_of_writing_is_asked_about_and_run_if_yes(line: str, bubblewrap: Cell) -> None:
    approver = ScriptedApprover([NO, YES])
    desk = await at_desk(bubblewrap, Approvals(approver=approver))
    before = sorted(path.name for path in bubblewrap.root.rglob("*"))
    refused = await desk.say(line)
    assert refused.status == "denied"
    assert "not today" in refused.content
    assert sorted(path.name for path in bubblewrap.root.rglob("*") if ".git" not in path.parts) == before
    assert (await desk.say(line)).status == "ok"
    assert desk.questions == ["in a read-only sandbox it could not write"] * 2


@pytest.mark.parametrize(
    ("line", "only_read"),
    [("cat a.txt", True), ("wc -l $(ls *.txt)", True), ("sort -o new a.txt", False), ("touch new", False)],
)
async def test_a_line_that_ran_where_it_could_write_may_have_changed_something(
    line: str, bubblewrap: Cell, *, only_read: bool
) -> None:
    desk = await at_desk(bubblewrap, Approvals(approver=ScriptedApprover([YES])))
    batch = await desk.run(line)
    assert batch.messages[0].status == "ok"
    assert desk.turns.taken == (0 if only_read else 1)


async def test_without_anybody_to_ask_it_is_a_denial_with_what_was_printed(bubblewrap: Cell) -> None:
    desk = await at_desk(bubblewrap)
    message = await desk.say("cat a.txt; sort -o new a.txt")
    assert message.status == "denied"
    assert "it could not write, and no one can approve in this run" in message.content
    assert "two" in message.content
    assert [event.decision for event in desk.sink.events if isinstance(event, ApprovalDecisionEvent)] == ["deny"]


@pytest.mark.parametrize("setting", [{"read_only_sandbox": "off"}, {"permission": "never"}])
async def test_it_can_be_turned_off(setting: dict[str, str], bubblewrap: Cell) -> None:
    desk = await at_desk(bubblewrap, **setting)
    assert (await desk.say("wc -l $(ls *.txt)")).status == "denied"


async def test_where_everything_is_approved_it_runs_as_approved(bubblewrap: Cell) -> None:
    desk = await at_desk(bubblewrap, Approvals(ApprovalMode.ALL))
    message = await desk.say("sort -o new $(echo a.txt)")
    assert message.status == "ok"
    assert UNASKED not in message.content
    assert (bubblewrap.root / "new").exists()


async def test_without_a_sandbox_it_is_asked_about(bubblewrap: Cell, tmp_path: Path) -> None:
    off = Confinement(SandboxConfig(mode=SandboxMode.OFF), {}, tmp_path / "home")
    desk = await at_desk(bubblewrap, None, off)
    assert (await desk.say("wc -l $(ls *.txt)")).status == "denied"


async def test_background_commands_are_asked_about(bubblewrap: Cell) -> None:
    desk = await at_desk(bubblewrap)
    assert (await desk.say("wc -l $(ls *.txt)", background=True)).status == "denied"


@pytest.mark.parametrize("mode", [SandboxMode.AUTO, SandboxMode.OFF])
async def test_what_only_reads_gets_little_memory_and_what_a_person_allowed_as_much_as_the_settings_say(
    mode: SandboxMode, bubblewrap: Cell
) -> None:
    confinement = Confinement(SandboxConfig(mode=mode, max_memory_mb=4_096), bubblewrap.environ, bubblewrap.root / "h")
    desk = await at_desk(bubblewrap, Approvals(ApprovalMode.ASK, ScriptedApprover([YES])), confinement)

    assert "-d) 2097152\n" in (await desk.say("ulimit -a")).content
    assert "-d) 2097152\n" in (await desk.say("cd src && ulimit -a | sort -b")).content
    exhausted = await desk.say("nl -w 2147483000 a.txt")
    assert (desk.questions, "[exit code 1]" in exhausted.content) == ([], True)
    assert "memory exhausted" in exhausted.content

    assert (await desk.say("ulimit -d; touch x")).content.startswith(
        "4194304" if mode is SandboxMode.AUTO else "unlimited"
    )
    assert len(desk.questions) == 1
