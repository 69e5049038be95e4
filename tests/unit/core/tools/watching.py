"""Watching real processes start and end."""

from __future__ import annotations

from pathlib import Path

from anyio import fail_after, move_on_after, sleep


def alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except (FileNotFoundError, ProcessLookupError):
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


async def gone(pid: int) -> bool:
    with move_on_after(120):
        while alive(pid):  # noqa: ASYNC110  another program acts, so there is only the clock to wait on
            await sleep(0.02)
        return True
    return False


def _written(file: Path) -> str:
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return text if text.endswith("\n") else ""


async def pid_in(file: Path) -> int:
    """Wait until a program has written its process id into ``file``, and return it."""
    with fail_after(120):
        while not _written(file):  # noqa: ASYNC110  as above
            await sleep(0.02)
    return int(_written(file))
