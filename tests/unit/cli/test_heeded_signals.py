from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from ipc.events import Event, SessionStartedEvent
from vibe.app.conversation.opening import NO_LIMITS, Opening, Seat
from vibe.app.engine.host import Host
from vibe.cli.commands.one_prompt import PipedPrompt, hold_conversation
from vibe.cli.signals import cancelled_by_signals
from vibe.core.messages import Outcome


class Impatient:
    """Interrupts the run the moment it announces its start."""

    def publish(self, event: Event) -> None:
        """Send SIGTERM to this process when the session starts."""
        if isinstance(event, SessionStartedEvent):
            assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL, "it would just die, without a record"
            os.kill(os.getpid(), signal.SIGTERM)


async def test_whoever_has_read_that_a_run_started_can_stop_it_and_gets_its_record(
    vibe_home: Path, tmp_path: Path
) -> None:
    turns: list[dict[str, Any]] = [{"text": "never", "delay_seconds": 600}]
    script = vibe_home / "script.json"
    script.write_text(json.dumps({"version": 1, "agents": {"main": {"turns": turns}}}))
    (vibe_home / "config.toml").write_text(
        f'active_model = "replay"\n[[providers]]\nname = "replay"\nbackend = "scripted"\nscript = "{script}"\n'
        '[[models]]\nname = "replay"\nprovider = "replay"\n'
    )
    host = Host(home=vibe_home, environ={"PATH": os.environ["PATH"]}, owns_process=True)

    opening = Opening(prompt="go", workdir=tmp_path)

    record = await hold_conversation(host, opening, Seat(listeners=[Impatient()]), NO_LIMITS, PipedPrompt("go"))

    assert (record.outcome, record.exit_code) == (Outcome.INTERRUPTED, 143)


async def test_a_signal_that_comes_with_the_end_of_the_block_is_heard(vibe_home: Path) -> None:
    host = Host(home=vibe_home, environ={}, owns_process=True)

    async with cancelled_by_signals(host) as signals:
        os.kill(os.getpid(), signal.SIGTERM)

    assert signals.exit_code == 143
