"""ProcessPool: processes for steps, some of them started before they are asked for."""

from __future__ import annotations

from collections import deque

from subagents.process.child_process import ProcessStartError, StepProcess, StepProgram


class ProcessPool:
    """Starts processes that serve one attempt each.

    ``spares`` of them are kept ready, and in all no more than ``expected`` are started before they are asked for: to be
    ready takes one a third of a second.
    """

    def __init__(self, program: StepProgram, *, spares: int, expected: int) -> None:
        self._program = program
        self._size = spares
        self._expected = expected
        self._starting = 0
        self._spares: deque[StepProcess] = deque()

    async def take(self) -> StepProcess:
        """A process for one attempt; the caller ends it.

        Raises:
            ProcessStartError: the system refuses one.
        """
        process = await self._ready()
        try:
            await self.fill()
        except BaseException:
            await process.end()
            raise
        return process

    async def fill(self) -> None:
        """Fill up with idle processes. A failure to start one is reported to the caller that needs one."""
        while self._expected > 0 and len(self._spares) + self._starting < self._size:
            self._expected -= 1
            self._starting += 1
            try:
                self._spares.append(await StepProcess.start(self._program))
            except ProcessStartError:
                return
            finally:
                self._starting -= 1

    async def close(self) -> None:
        """End the idle processes."""
        self._expected = 0
        while self._spares:
            await self._spares.popleft().end()

    async def _ready(self) -> StepProcess:
        while self._spares:
            spare = self._spares.popleft()
            if spare.exit_code is None:
                return spare
            await spare.end()  # it did not survive its own start, or was killed
        self._expected -= 1
        return await StepProcess.start(self._program)
