# ruff: noqa: ARG002, ASYNC240  the library dictates the signatures, and an editor has few files
"""An editor on ACP's public library, for synchronous tests. It checks every message against the protocol's schema."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from acp import PROTOCOL_VERSION, Client, RequestError, schema as s, spawn_agent_process
from acp.client.connection import ClientSideConnection
from acp.connection import StreamDirection, StreamEvent
from anyio import Event, fail_after
from anyio.from_thread import BlockingPortal, start_blocking_portal
from jsonschema import Draft202012Validator
from pydantic import TypeAdapter

from tests.fakes.npm_peers import PACKAGES, install_peers

SECONDS = 90.0
SCHEMA = PACKAGES / "@agentclientprotocol" / "sdk" / "schema" / "schema.json"
"""The protocol's own schema, as its authors publish it."""
ENDED = ("completed", "failed")


class SchemaWatch:
    """Checks every message on the wire. ``faults`` describes those that do not fit the protocol's schema."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.seen: list[str] = []
        self._calls: dict[Any, tuple[str, str]] = {}
        self._states: dict[tuple[str, str], str | None] = {}
        self._parts: dict[str, Any] = json.loads(SCHEMA.read_bytes())["$defs"]
        self._names = {
            (part["x-method"], kind): name
            for name, part in self._parts.items()
            for kind in ("Request", "Response", "Notification")
            if "x-method" in part and name.endswith(kind)
        }

    def __call__(self, event: StreamEvent) -> None:
        """Check one incoming message. Outgoing ones come from the library, so only their ids are noted."""
        try:
            self._look(event)
        except Exception as error:  # noqa: BLE001  the library would swallow it
            self.faults.append(f"{event.message}: {error!r}")

    def _look(self, event: StreamEvent) -> None:
        message = event.message
        if event.direction is StreamDirection.OUTGOING:
            if "method" in message and "id" in message:
                self._calls[message["id"]] = (message["method"], message["params"].get("sessionId", ""))
            return
        if message.get("jsonrpc") != "2.0":
            self.faults.append(f"no version: {message}")
        method = message.get("method")
        if method is not None:
            self.seen.append(method)
            self._hold(self._names[method, "Request" if "id" in message else "Notification"], message["params"])
            self._follow(message["params"])
        elif "result" in message:
            method, session_id = self._calls.pop(message["id"])
            self._hold(self._names[method, "Response"], message["result"])
            if method == "session/prompt":
                running = [one for one, state in self._states.items() if one[0] == session_id and state not in ENDED]
                self.faults += [f"{one} has no end when its prompt has" for one in running]
        else:
            self._hold("Error", message["error"])

    def _follow(self, params: Any) -> None:
        """Check the order of tool calls: each must begin before it is updated and before permission is asked for it."""
        update = params.get("update", {})
        said = params.get("toolCall", update)
        if "toolCallId" not in said:
            return
        call = (params["sessionId"], said["toolCallId"])
        if update.get("sessionUpdate") != "tool_call" and call not in self._states:
            self.faults.append(f"{call} has not begun: {params}")
        self._states[call] = said.get("status", self._states.get(call))

    def _hold(self, name: str, given: Any) -> None:
        """Validate a message against the schema, and against the library's model too.

        The schema allows unknown fields. The model would drop them, so a message must survive the round trip unchanged.
        """
        wanted: Any = Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": self._parts})
        self.faults += [f"{name}: {error.message}: {given}" for error in wanted.iter_errors(given)]
        model: TypeAdapter[Any] = TypeAdapter(getattr(s, name))
        read = model.validate_python(given, strict=True)
        again = model.dump_python(read, mode="json", by_alias=True, exclude_unset=True)
        if again != given:
            self.faults.append(f"{name}: {given} is read as {again}")


class EditorTerminal:
    """A command that the editor runs for the agent."""

    def __init__(self, order: dict[str, Any]) -> None:
        environ = {**os.environ, "EDITOR_SECRET": "hidden", **{one.name: one.value for one in order["env"] or ()}}
        self.order = order
        self.is_released = False
        self.is_killed = False
        self.has_said = False
        self._process = subprocess.Popen(
            [order["command"], *(order["args"] or ())],
            cwd=order["cwd"],
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        os.set_blocking(self._process.stdout.fileno(), False)
        self.output = b""

    def poll(self) -> int | None:
        """Read the output so far, and return the exit code, or None if the command still runs."""
        code = self._process.poll()
        assert self._process.stdout is not None
        while chunk := self._process.stdout.read():
            self.output += chunk
        return code

    def kill(self) -> None:
        """Kill the command and its process group."""
        self.is_killed = True
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def close(self) -> None:
        """Kill the command if it still runs, and close its output."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


class ScriptedEditor(Client):
    """A ``Client`` whose user follows a script.

    ``buffers`` holds unsaved text by path. ``answers`` are given to permission requests in order, each as the kind or
    the id of an option. A callable answer is called for its value. None cancels the request.
    """

    def __init__(self) -> None:
        self.watch = SchemaWatch()
        self.updates: list[tuple[str, Any]] = []
        self.asked: list[Any] = []
        self.answers: deque[str | Callable[[], str | None] | None] = deque()
        self.buffers: dict[str, str] = {}
        self.forms: deque[dict[str, Any] | None] = deque()
        """Values for the next forms, in order. None declines the form."""
        self.missing: str | RequestError = RequestError.resource_not_found()
        """The text returned for a file that does not exist, or the error raised for it."""
        self.files_asked: list[str] = []
        self.on_read: Callable[[str], None] = lambda _: None
        self.terminals: dict[str, EditorTerminal] = {}
        self.output_has_status = True
        """Whether the output of a terminal comes with the exit status."""
        self.names_exit_codes = True
        """Whether the exit status of a terminal names an exit code or a signal."""
        self.first_says_nothing = False
        """Whether the first exit status names neither."""
        self.hold = Event()

    def on_connect(self, conn: Any) -> None:
        """Do nothing."""

    # --- what happens ---

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        """Record the update."""
        self.updates.append((session_id, update))

    def of(self, kind: str, session_id: str = "") -> list[Any]:
        """Return the updates of one kind, of one session or of all."""
        return [one for of, one in self.updates if one.session_update == kind and session_id in {"", of}]

    def text(self, session_id: str = "", kind: str = "agent_message_chunk") -> str:
        """Return everything that was said, joined."""
        return "".join(one.content.text for one in self.of(kind, session_id))

    def calls(self, session_id: str = "") -> dict[str, dict[str, Any]]:
        """Return the latest state of each tool call by its id, with all its statuses in ``states``."""
        found: dict[str, dict[str, Any]] = {}
        for of, one in self.updates:
            if one.session_update in {"tool_call", "tool_call_update"} and session_id in {"", of}:
                known = found.setdefault(one.tool_call_id, {"states": []})
                known.update({name: value for name, value in one.model_dump().items() if value is not None})
                known["states"].append(one.status)
        return found

    # --- questions ---

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_: Any) -> Any:
        """Give the next answer. Without one, wait until ``hold`` is set and cancel."""
        self.asked.append((session_id, tool_call, options))
        answer = self.answers.popleft() if self.answers else await self._held()
        kind = answer() if callable(answer) else answer
        chosen = next((one for one in options if kind in {one.kind, one.option_id}), None)
        if chosen is None:
            return s.RequestPermissionResponse(outcome=s.DeniedOutcome(outcome="cancelled"))
        outcome = s.AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        return s.RequestPermissionResponse(outcome=outcome)

    async def give_up(self) -> None:
        """Cancel the open permission requests."""
        hold, self.hold = self.hold, Event()
        hold.set()

    async def _held(self) -> None:
        with fail_after(SECONDS):
            await self.hold.wait()

    # --- files ---

    async def read_text_file(
        self, session_id: str, path: str, line: int | None = None, limit: int | None = None, **_: Any
    ) -> s.ReadTextFileResponse:
        """Return the buffer if there is one, else the file."""
        self.files_asked.append(f"read {path}")
        if path in self.buffers:
            text = self.buffers[path]
        elif Path(path).is_file():
            text = Path(path).read_text(encoding="utf-8")
        elif isinstance(self.missing, RequestError):
            raise self.missing
        else:
            text = self.missing
        self.on_read(path)
        lines = text.splitlines(keepends=True)[(line or 1) - 1 :]
        return s.ReadTextFileResponse(content="".join(lines if limit is None else lines[:limit]))

    async def write_text_file(self, session_id: str, path: str, content: str, **_: Any) -> s.WriteTextFileResponse:
        """Change the buffer and save it to disk."""
        self.files_asked.append(f"write {path}")
        self.buffers[path] = content
        Path(path).write_text(content, encoding="utf-8")
        return s.WriteTextFileResponse()

    # --- terminals ---

    async def create_terminal(
        self,
        session_id: str,
        command: str,
        args: list[str] | None = None,
        env: list[s.EnvVariable] | None = None,
        cwd: str | None = None,
        output_byte_limit: int | None = None,
        **_: Any,
    ) -> s.CreateTerminalResponse:
        """Start the command."""
        terminal_id = f"t{len(self.terminals)}"
        order = {"command": command, "args": args, "env": env, "cwd": cwd, "limit": output_byte_limit}
        self.terminals[terminal_id] = EditorTerminal(order)
        return s.CreateTerminalResponse(terminal_id=terminal_id)

    async def terminal_output(self, session_id: str, terminal_id: str, **_: Any) -> s.TerminalOutputResponse:
        """Return the output, cut to the limit of the order."""
        terminal = self._terminal(terminal_id)
        code = terminal.poll()
        text = terminal.output.decode(errors="replace")
        limit = terminal.order["limit"] or len(text)
        status = self._status(code) if code is not None and self.output_has_status else None
        if status is not None and self.first_says_nothing and not terminal.has_said:
            status, terminal.has_said = s.TerminalExitStatus(), True
        return s.TerminalOutputResponse(output=text[-limit:], truncated=len(text) > limit, exit_status=status)

    async def wait_for_terminal_exit(
        self, session_id: str, terminal_id: str, **_: Any
    ) -> s.WaitForTerminalExitResponse:
        """Wait until the command ends."""
        from anyio import sleep  # noqa: PLC0415  an editor polls, too

        terminal = self._terminal(terminal_id)
        while (code := terminal.poll()) is None:  # noqa: ASYNC110  the process signals its end to nobody
            await sleep(0.02)
        status = s.TerminalExitStatus() if self.first_says_nothing else self._status(code)
        return s.WaitForTerminalExitResponse(exit_code=status.exit_code, signal=status.signal)

    async def kill_terminal(self, session_id: str, terminal_id: str, **_: Any) -> s.KillTerminalResponse:
        """Kill the command."""
        self._terminal(terminal_id).kill()
        return s.KillTerminalResponse()

    async def release_terminal(self, session_id: str, terminal_id: str, **_: Any) -> s.ReleaseTerminalResponse:
        """Mark the terminal as released, so that it is not found any more."""
        self._terminal(terminal_id).is_released = True
        return s.ReleaseTerminalResponse()

    def _status(self, code: int) -> s.TerminalExitStatus:
        if not self.names_exit_codes:
            return s.TerminalExitStatus()
        if code < 0:
            return s.TerminalExitStatus(exit_code=None, signal=f"{-code}")
        return s.TerminalExitStatus(exit_code=code, signal=None)

    def _terminal(self, terminal_id: str) -> EditorTerminal:
        found = self.terminals.get(terminal_id)
        if found is None or found.is_released:
            raise RequestError.resource_not_found(terminal_id)
        return found

    async def create_elicitation(self, message: str, mode: Any, **_: Any) -> Any:
        """Fill in the next form. Without any left, behave as an editor without forms."""
        if not self.forms:
            raise RequestError.method_not_found("elicitation/create")
        self.asked.append((message, mode))
        answer = self.forms.popleft()
        if answer is None:
            return s.DeclineElicitationResponse(action="decline")
        return s.AcceptElicitationResponse(action="accept", content=answer)

    async def complete_elicitation(self, elicitation_id: str, **_: Any) -> None:
        """Do nothing: no elicitation is left open."""

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Refuse: no extension is known."""
        raise RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Refuse: no extension is known."""


class Editing:
    """An editor connected to an agent that runs as a process."""

    def __init__(self, portal: BlockingPortal, editor: ScriptedEditor) -> None:
        self.portal = portal
        self.editor = editor
        self.conn: ClientSideConnection
        self.process: Any
        self.introduction: Any

    def do(self, call: Callable[..., Any], *args: Any, **more: Any) -> Any:
        """Make a request and return its answer."""
        return self.begin(call, *args, **more).result(SECONDS)

    def begin(self, call: Callable[..., Any], *args: Any, **more: Any) -> Future[Any]:
        """Make a request without waiting, and return the future of its answer."""

        async def made() -> Any:
            return await call(*args, **more)

        return self.portal.start_task_soon(made)

    def new(self, cwd: Path, **more: Any) -> str:
        """Start a session and return its id."""
        return self.do(self.conn.new_session, cwd=str(cwd), mcp_servers=more.pop("mcp_servers", []), **more).session_id

    def ask(self, session_id: str, *blocks: Any) -> Any:
        """Send a prompt and wait for the end of its turn."""
        return self.asking(session_id, *blocks).result(SECONDS)

    def asking(self, session_id: str, *blocks: Any) -> Future[Any]:
        """Send a prompt without waiting."""
        given = [s.TextContentBlock(type="text", text=one) if isinstance(one, str) else one for one in blocks]
        return self.begin(self.conn.prompt, session_id=session_id, prompt=given)

    def cancel(self, session_id: str) -> None:
        """Cancel the current turn of a session."""
        self.do(self.conn.cancel, session_id=session_id)

    def hang_up(self) -> None:
        """Close the connection without a word, as a killed editor does, and wait until the agent has exited too."""
        self.portal.call(self.process.stdin.close)
        self.do(self.process.wait)


@contextmanager
def editing(
    argv: Sequence[str],
    environ: Mapping[str, str],
    cwd: Path,
    *,
    files: bool = True,
    terminal: bool = True,
    forms: bool = False,
) -> Generator[Editing]:
    """Start an agent and connect an editor with these capabilities. Fail at the end if any message broke the schema."""
    install_peers()
    editor = ScriptedEditor()
    can = s.ClientCapabilities(
        fs=s.FileSystemCapabilities(read_text_file=files, write_text_file=files),
        terminal=terminal,
        elicitation=s.ElicitationCapabilities(form=s.ElicitationFormCapabilities()) if forms else None,
    )
    with start_blocking_portal() as portal:
        edited = Editing(portal, editor)
        process = spawn_agent_process(
            editor, *argv, env=environ, cwd=cwd, transport_kwargs={"stderr": None}, observers=[editor.watch],
            use_unstable_protocol=True,
        )  # fmt: skip
        with portal.wrap_async_context_manager(process) as (edited.conn, edited.process):
            edited.introduction = edited.do(
                edited.conn.initialize, protocol_version=PROTOCOL_VERSION, client_capabilities=can
            )
            try:
                yield edited
            finally:
                for one in editor.terminals.values():
                    one.close()
        assert not editor.watch.faults, editor.watch.faults
