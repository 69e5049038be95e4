"""call_vibe: a prompt answered by an agent of ours, in a folder that the client names."""

from __future__ import annotations

from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from anyio import to_thread
from pydantic import AfterValidator, BeforeValidator, Field

from vibe.mcp_server.lazy_runtime import LazyRuntime
from vibe.mcp_server.tool import CallArguments, Caller, CallRefusedError, ServedTool, ToolAnswer

DEFAULT_TIMEOUT_MS = 60_000
LONGEST_MS = 24 * 3600 * 1000
DEFAULT_RESPONSE_CHARS = 100_000
PROMPT_CHARS = 1_000_000
"""More than any model reads: a longer prompt is a mistake."""
ResponseChars = Annotated[
    int,
    AfterValidator(lambda limit: DEFAULT_RESPONSE_CHARS if limit < 0 else limit),
    Field(description="A longer response is cut after so many characters; 0: never."),
]


class CallVibeArguments(CallArguments):
    """The prompt, the place and how far to go."""

    prompt: Annotated[str, Field(description="The task, with everything the agent must know: it starts afresh.")]
    cwd: Annotated[str, Field(description="The folder to work in, as an absolute path.")]
    agent: Annotated[str | None, Field(description="The agent profile; as configured if left out.")] = None
    mode: Annotated[
        Literal["execute", "observe"],
        BeforeValidator(lambda said: (said.strip() or "execute") if isinstance(said, str) else said),
        Field(
            description="execute: may change files and run commands, as far as it is allowed to. observe: only looks; "
            "writing, commands that change something and the network are impossible."
        ),
    ] = "execute"
    timeout_ms: Annotated[
        float,
        Field(gt=0, le=LONGEST_MS, allow_inf_nan=False, description="It is stopped with all it started after that."),
    ] = DEFAULT_TIMEOUT_MS
    max_response_chars: ResponseChars = DEFAULT_RESPONSE_CHARS


class CallVibe(ServedTool):
    """See the module."""

    name = "call_vibe"
    title = "Call Vibe"
    description = (
        "Delegate a task to vibe, a coding agent with its own tools (files, search, shell, subagents), and get its "
        "final answer. Each call is a conversation of its own; calls may run side by side."
    )
    arguments = CallVibeArguments
    answer = MappingProxyType({
        "response": {"type": "string", "description": "The agent's final answer."},
        "metadata": {"type": "object", "description": "Session, usage, cost, time, and what was denied."},
    })

    def __init__(self, runtime: LazyRuntime) -> None:
        self._runtime = runtime

    async def call(self, given: Any, caller: Caller) -> ToolAnswer:
        """Have the prompt answered; see ``ServedTool.call``."""
        args: CallVibeArguments = given
        prompt = checked_text("prompt", args.prompt)
        workdir = await to_thread.run_sync(existing_workdir, args.cwd)
        runtime = await self._runtime.loaded()
        from vibe.mcp_server.conversation_call import ConversationCall  # noqa: PLC0415  loaded with the runtime

        call = ConversationCall(
            prompt=prompt,
            workdir=workdir,
            agent=(args.agent or "").strip() or None,
            observe=args.mode == "observe",
            seconds=args.timeout_ms / 1000,
            auto_approve=self._runtime.auto_approve,
        )
        ended = await call.run(runtime, caller)
        response = cut(ended.response, args.max_response_chars)
        text = ended.problem if not response else f"{ended.problem}\n\n{response}" if ended.problem else response
        return ToolAnswer(
            text=text or "(the agent gave no answer in words)",
            data={"status": ended.status, "response": response, "metadata": ended.metadata},
            is_error=bool(ended.problem),
        )


def checked_text(name: str, text: str) -> str:
    """Return a text a model is to read, without blanks around it.

    Raises:
        CallRefusedError: there is none, or too much of it.
    """
    text = text.strip()
    if not text:
        raise CallRefusedError(f"{name} is empty: say what is to be done")
    if "\0" in text:
        raise CallRefusedError(f"{name} holds a NUL character: leave it out")
    if len(text) > PROMPT_CHARS:
        raise CallRefusedError(
            f"{name} has {len(text):,} characters, more than the {PROMPT_CHARS:,} there may be: name files instead of "
            "repeating them"
        )
    return text


def existing_workdir(given: str) -> Path:
    """Return the folder a call names; reads the file system.

    Raises:
        CallRefusedError: it is not absolute, not there, or can't be used.
    """
    if not given.strip():
        raise CallRefusedError("cwd is empty: give the absolute path of the folder to work in")
    folder = Path(given.strip())
    if not folder.is_absolute():
        raise CallRefusedError(f"cwd {_shown(given)} is relative: give the absolute path of the folder to work in")
    try:
        found = folder.is_dir()
        resolved = folder.resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise CallRefusedError(f"cwd {_shown(given)} can't be used: give the path of a folder") from error
    if not found:
        raise CallRefusedError(f"cwd {_shown(given)} is no folder: create it, or give one that is there")
    return resolved


def cut(response: str, limit: int) -> str:
    """Return the response, of at most so many characters and with a notice where it was cut; 0: whole."""
    if limit == 0 or len(response) <= limit:
        return response
    return f"{response[:limit]}...\n\n[TRUNCATED: Response was {len(response)} chars, limit is {limit}]"


def _shown(path: str) -> str:
    return repr(path if len(path) <= 200 else f"{path[:200]}...")
