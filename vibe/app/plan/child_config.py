"""StepDocument: what the process of a step is told about the run it belongs to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from subagents.agent.budget import Limits
from vibe.app.engine.build import EngineRequest
from vibe.app.plan.step_context import StepPlace
from vibe.core.tools.permissions import ApprovalMode


class StepDocument(Struct, frozen=True, kw_only=True):
    """Everything a step's process builds its engine from; paths as text.

    ``workdir``, ``flags``, ``trust`` and ``replay`` are those of ``EngineRequest``. ``steps`` is the folder of the
    steps' folders. ``limits`` are the plan's.
    """

    home: str
    steps: str
    workdir: str
    approvals: ApprovalMode
    place: StepPlace
    limits: Limits = Limits()
    flags: dict[str, Any] = {}
    trust: bool = False
    replay: str | None = None

    @property
    def request(self) -> EngineRequest:
        """Request by which the run's own engine was built."""
        replay = None if self.replay is None else Path(self.replay)
        return EngineRequest(workdir=Path(self.workdir), flags=self.flags, trust=self.trust, replay=replay)


def encode_document(document: StepDocument) -> bytes:
    """The document as JSON."""
    return msgspec.json.encode(document)


def decode_document(body: bytes) -> StepDocument:
    """The document in some JSON.

    Raises:
        msgspec.DecodeError: there is none.
    """
    return msgspec.json.decode(body, type=StepDocument)
