"""ServedTools: the tools of this server by name; every call ends here in an answer, good or bad."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from vibe.core.errors import VibeError, unexpected
from vibe.core.plain_text import closest, did_you_mean
from vibe.core.tools.schema import describe_problems
from vibe.mcp_server.tool import Caller, ServedTool, ToolAnswer

logger = logging.getLogger(__name__)

MOST_PROBLEMS = 10


class ServedTools:
    """The tools there are."""

    def __init__(self, tools: Sequence[ServedTool]) -> None:
        self.by_name = {tool.name: tool for tool in tools}

    async def call(self, name: str, arguments: Mapping[str, Any], caller: Caller) -> ToolAnswer:
        """Call a tool. What can't be done is an answer, too: a sentence that says why."""
        from ipc.errors import IpcError  # noqa: PLC0415  the handshake does without it

        tool = self.by_name.get(name)
        if tool is None:
            hint = did_you_mean(closest(name, self.by_name), f"there are: {', '.join(self.by_name)}")
            return _refusal(f"there is no tool {name[:80]!r}; {hint}")
        try:
            return await tool.call(tool.arguments.model_validate(dict(arguments)), caller)
        except ValidationError as error:
            problems = [problem.removeprefix(": ") for problem in describe_problems(error, "")[:MOST_PROBLEMS]]
            takes = ", ".join(tool.arguments.model_fields)
            return _refusal(f"{name} can't be called so: {'; '.join(problems)}; it takes {takes}")
        except (VibeError, IpcError) as error:
            return _refusal(str(error))
        except Exception as error:
            logger.exception("a call of %s failed", name)
            return _refusal(unexpected(error))


def _refusal(sentence: str) -> ToolAnswer:
    return ToolAnswer(text=sentence, data={"status": "refused", "detail": sentence}, is_error=True)
