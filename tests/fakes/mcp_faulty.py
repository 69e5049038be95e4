"""A small MCP server of scripted misbehaviour, on the standard library alone: ``python mcp_faulty.py FAULT [FOLDER]``.

FAULT: ``none``, ``silent`` (never answers), ``rubbish`` (prints lines that are no messages, then works), ``noise``
(nothing else), ``exit`` (ends at once), ``dies`` (ends in each call), ``dies-once`` (in the first; FOLDER remembers),
``last-words`` (in each, but says why in the first only), ``flood`` (stderr), ``bad-result``, ``writes`` (FOLDER is its
answer to a call, with ID for the id), ``writes:ENCODING`` (without a line end of its own), ``bad-list``, ``odd-tools``, ``long-line``, ``mute`` (closes its output), ``stubborn`` (ignores the end of its
input and SIGTERM), ``hang`` (never answers a call), ``pages``, ``slow`` (takes a second to start), ``slow-restart``
(``dies-once``, then ``slow``), ``lame-restart`` (``dies-once``, then ends at once, then works), ``many`` (2 000 tools),
``says`` (FOLDER is JSON: the answer by method, in place of its own).
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

FAULT = sys.argv[1]
FOLDER = Path(sys.argv[2]) if len(sys.argv) > 2 else Path()
OBJECT = {"type": "object", "properties": {"text": {"type": "string"}}}


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tool(name: str, schema: Any = OBJECT, **more: Any) -> dict[str, Any]:
    return {"name": name, "description": f"Does {name}.", "inputSchema": schema, **more}


def listed(cursor: str | None) -> dict[str, Any]:
    if FAULT in {"pages", "endless"}:
        page = int(cursor or 0)
        return {
            "tools": [tool(f"tool{page}")],
            **({"nextCursor": str(page + 1)} if page < 4 or FAULT == "endless" else {}),
        }
    if FAULT == "many":
        return {"tools": [tool(f"tool{number:04}") for number in range(2_000)]}
    if FAULT == "bad-list":
        return {"tools": [{"description": "has no name"}]}
    if FAULT == "odd-tools":
        return {
            "tools": [
                tool("with space/ünd mehr"),
                tool("x" * 100),
                tool("x" * 101),
                tool("takes-text", {"type": "string"}),
                tool("huge", {**OBJECT, "enum": ["y" * 40_000]}),
                tool("wordy", {**OBJECT, "description": "z" * 20_000}),
                tool(""),
            ]
        }
    return {"tools": [tool("echo"), tool("look", annotations={"readOnlyHint": True})]}


def called(request: dict[str, Any]) -> None:
    text = request["params"].get("arguments", {}).get("text", "")
    if FAULT == "hang":
        return
    if FAULT.startswith("writes"):
        encoding = FAULT.partition(":")[2]
        text = sys.argv[2].replace("ID", str(request["id"])) + ("" if encoding else "\n")
        sys.stdout.buffer.write(text.encode(encoding or "utf-8"))
        sys.stdout.flush()
        return
    if FAULT == "mute":
        os.close(1)
        return
    if FAULT == "long-line":
        sys.stdout.write("x" * (40 * 1024 * 1024))
        sys.stdout.flush()
        return
    if FAULT == "bad-result":
        say({"id": request["id"], "result": {"content": 3}})
        return
    first = FOLDER / "died"
    if FAULT == "last-words":
        sys.stderr.write("" if first.exists() else "the disk is full\n")
        first.touch()
        os._exit(9)
    if FAULT == "dies" or (FAULT in {"dies-once", "slow-restart", "lame-restart"} and not first.exists()):
        first.touch()
        os._exit(9)
    say({"id": request["id"], "result": {"content": [{"type": "text", "text": f"Echo: {text}"}]}})


def misbehave() -> None:
    """Do what the fault demands before the first message."""
    if FAULT == "exit":
        sys.stderr.write("cannot open the database\n")
        sys.exit(3)
    if FAULT in {"rubbish", "noise"}:
        sys.stdout.write("Welcome to the server!\n\nlistening\n{not json}\n[1, 2]\nready> ")
        sys.stdout.flush()
    if FAULT == "flood":
        for number in range(40_000):
            sys.stderr.write(f"{number} {'f' * 100}\n")
    if FAULT == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def answer(request: dict[str, Any]) -> None:
    params: dict[str, Any] = request.get("params") or {}
    if FAULT == "says" and (answers := json.loads(sys.argv[2])).get(request["method"]):
        say({"id": request["id"], **answers[request["method"]]})
        return
    match request.get("method"):
        case "initialize":
            if FAULT == "slow" or (FAULT == "slow-restart" and (FOLDER / "died").exists()):
                time.sleep(1)
            lame = FOLDER / "lame"
            if FAULT == "lame-restart" and (FOLDER / "died").exists() and not lame.exists():
                lame.touch()
                sys.exit(4)
            info = {"name": "faulty", "version": "1"}
            result: dict[str, Any] = {
                "protocolVersion": params["protocolVersion"],
                "capabilities": {"tools": {}},
                "serverInfo": info,
            }
            say({"id": request["id"], "result": result})
        case "tools/list":
            say({"id": request["id"], "result": listed(params.get("cursor"))})
        case "tools/call":
            called(request)
        case _ if "id" in request:
            say({"id": request["id"], "error": {"code": -32601, "message": "Method not found"}})
        case _:
            return


def main() -> None:
    misbehave()
    for line in sys.stdin:
        if FAULT not in {"silent", "noise"}:
            answer(json.loads(line))
    while FAULT == "stubborn":
        time.sleep(60)


main()
