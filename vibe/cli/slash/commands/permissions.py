"""``/permissions``: the calls that pass unasked, and the decision about one."""

from __future__ import annotations

from collections.abc import Sequence

from anyio import to_thread

from ipc.sink import MemorySink
from vibe.app.inspect.permissions import PermissionCheck, given_arguments
from vibe.cli.render.event_text import one_line
from vibe.cli.render.listings import decision_line
from vibe.cli.slash.command import ArgumentChoice, Talk, Typed
from vibe.cli.slash.wording import setup_line
from vibe.core.errors import UsageError
from vibe.core.tools.errors import NoSuchToolError, ToolArgumentsError
from vibe.core.tools.gate import Gate
from vibe.core.tools.permissions import PermissionDecision

YES_LENGTH = 200


async def run(talk: Talk, typed: Typed) -> None:
    """Say which calls pass unasked, or what would become of one."""
    tool, _, arguments = typed.rest.partition(" ")
    if tool and not arguments.strip():
        raise UsageError("/permissions TOOL ARGUMENTS: say the call, such as /permissions bash ls -l")
    if tool:
        talk.say(decision_line(await to_thread.run_sync(_decided, talk, tool, arguments.strip())))
        return
    talk.say(setup_line(talk))
    yeses = talk.conversation.approvals.yeses
    talk.say("allowed by you:" if yeses else "nothing is allowed beyond one call")
    for yes in yeses:
        talk.say(f"  {one_line(yes, YES_LENGTH)}")


async def choices(talk: Talk, text: str) -> Sequence[ArgumentChoice]:
    """Return the tools."""
    tools = talk.conversation.setup.tools.available
    return [] if " " in text else [ArgumentChoice(name, tool.get_description()) for name, tool in tools.items()]


def _decided(talk: Talk, tool: str, arguments: str) -> PermissionDecision:
    conversation = talk.conversation
    setup = conversation.setup
    workspace = setup.workspace(conversation.session, talk.seat.files)
    gate = Gate(workspace, conversation.approvals, MemorySink(), setup.engine.confinement)
    try:
        return PermissionCheck(setup.tools.get(tool), gate).decide(given_arguments(arguments))
    except (NoSuchToolError, ToolArgumentsError) as error:
        raise UsageError(f"/permissions {tool}: {error}") from error
