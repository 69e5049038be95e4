"""The events and commands of a run, and what carries them: journal, bus, subscriber and control address.

``ipc.subscribe`` is ``ipc.subscriber.subscribe``, loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ipc.subscriber import subscribe as subscribe


def __getattr__(name: str) -> object:
    if name == "subscribe":
        from ipc.subscriber import subscribe  # noqa: PLC0415  as said above

        return subscribe
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
