"""skill: loads a skill's instructions."""

from __future__ import annotations

from typing import Annotated, ClassVar

import anyio.to_thread
from pydantic import Field

from vibe.core.tools.base import BaseTool, BaseToolState, InvokeContext, TextResult, ToolArgs, ToolError, UnaskedConfig


class SkillArgs(ToolArgs):
    """The name of the skill."""

    name: Annotated[str, Field(min_length=1, description="a name from the list of available skills")]


class Skill(BaseTool[SkillArgs, TextResult, UnaskedConfig, BaseToolState]):
    """Loads a skill. Its restrictions apply to this agent from then on."""

    description: ClassVar[str] = "Load a skill's instructions. A skill may restrict which tools you can use afterwards."
    read_only: ClassVar[bool] = True

    async def run(self, args: SkillArgs, ctx: InvokeContext) -> TextResult:
        """Return the skill's instructions.

        Raises:
            VibeError: there is no such skill, or its file can't be used.
        """
        if ctx.skills is None:
            raise ToolError("there are no skills here: do the work without one")
        return TextResult(text=await anyio.to_thread.run_sync(ctx.skills.load, args.name))
