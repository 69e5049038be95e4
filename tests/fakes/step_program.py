"""A program that stands in for a step's process and behaves as its step's prompt says: well, badly or not at all.

It speaks the link's protocol in plain JSON, and imports none of our packages, so that it starts at once.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from typing import Any


class Peer:
    """The step's end of the link."""

    def __init__(self, descriptor: int) -> None:
        self._link = socket.socket(fileno=descriptor)
        self._lines = self._link.makefile("rb")
        self._leases = 0

    def say(self, kind: str, /, **fields: Any) -> None:
        """Send a message."""
        self.write(json.dumps({**fields, "type": kind}).encode() + b"\n")

    def write(self, data: bytes) -> None:
        """Send raw bytes."""
        self._link.sendall(data)

    def hear(self) -> dict[str, Any]:
        """Return the next message. Exits when the run is gone."""
        line = self._lines.readline()
        if not line:
            sys.exit(9)
        return json.loads(line)

    def ask(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Ask for a lease and return the answer."""
        self._leases += 1
        self.say("asked", lease=self._leases, want={"type": kind, **fields})
        while (answer := self.hear()).get("lease") != self._leases:
            pass
        return answer

    def event(self, text: str) -> None:
        """Publish an event."""
        self.say("event", event={"type": "warning", "code": "test", "message": text, "subagent_step_id": STEP})

    def done(self, summary: str = "done") -> None:
        """Report that the attempt is completed."""
        self.say("ended", result={"outcome": "completed", "summary": summary})

    def room(self, prompt: int, wanted: int) -> dict[str, Any]:
        """Ask for room for a model call."""
        return self.ask(
            "room",
            model="m",
            provider="p",
            input_price=1.0,
            output_price=1.0,
            prompt_tokens=prompt,
            wanted_tokens=wanted,
        )


def well(peer: Peer, word: str, rest: str, name: str) -> None:
    """Behave as a process should."""
    match word:
        case "complete":
            peer.event("working")
            peer.done(f"{name} {os.getpid()}")
        case "events":
            for number in range(int(rest)):
                peer.event(str(number))
            peer.done()
        case "large":
            peer.event("x" * int(rest))
            peer.done()
        case "print":
            print("x" * int(rest), flush=True)  # noqa: T201  the test looks at it
            peer.done()
        case "spend":
            peer.done(spend(peer, int(rest)))
        case "stop":
            peer.event("working")
            peer.done(peer.hear()["type"])
        case "leave":
            peer.event("working")
            while peer.hear()["type"] != "cancel":
                pass
            peer.event("leaving")
        case _:
            badly(peer, word, rest)


def badly(peer: Peer, word: str, rest: str) -> None:
    """Misbehave."""
    match word:
        case "wait":
            peer.event(str(os.getpid()))
            peer.hear()
        case "die-by":
            print("some words\nthe last words", flush=True)  # noqa: T201  the test looks at it
            os.kill(os.getpid(), getattr(signal, rest))
        case "exit":
            sys.stderr.write("a traceback\nMemoryError\n")
            sys.stderr.flush()
            os._exit(int(rest))
        case "close":
            peer.event("working")
        case "say":
            peer.write(rest.encode() + b"\n")
            time.sleep(600)
        case "hang":
            daemon = subprocess.Popen(["sleep", "600"], start_new_session=True)
            peer.event(f"{os.getpid()} {daemon.pid}")
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(600)
        case "hold":
            peer.event(peer.room(100, int(rest))["type"])
            os.kill(os.getpid(), signal.SIGKILL)
        case _:
            raise SystemExit(f"no behaviour {word!r}")


def spend(peer: Peer, calls: int) -> str:
    """Make model calls that use all the tokens granted, until one is refused."""
    granted = 0
    for _ in range(calls):
        answer = peer.room(10, 100)
        if answer["type"] == "refused":
            return f"refused after {granted}"
        usage = {"prompt_tokens": 10, "completion_tokens": answer["tokens"], "cached_tokens": 0, "calls": 1}
        time.sleep(0.001)
        peer.say("returned", lease=answer["lease"], usage=usage, cost_usd=0.001)
        granted += 1
    return f"spent {granted}"


CHANGES: dict[str, dict[str, Any]] = {
    "well": {"capabilities": ["agents"]},
    "protocol": {"version": 99, "capabilities": ["agents"], "unheard_of": True},
    "version": {"vibe": "9.9.9", "capabilities": ["agents"]},
    "unable": {"platform": "plan9", "capabilities": ["washing-up"]},
}


if __name__ == "__main__":
    if sys.argv[1] == "stillborn":
        sys.exit(4)
    run = Peer(int(sys.argv[-2]))
    run_is = run.hear()
    if sys.argv[1] == "silent":
        run.done()
    run.say("hello", **{**run_is, **CHANGES.get(sys.argv[1], {})})
    about = run.hear()["document"]
    task = run.hear()["task"]
    STEP = task["step"]["id"]
    first, _, others = task["step"]["prompt"].partition(" ")
    well(run, first, others, about["name"])
