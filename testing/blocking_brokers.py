"""The brokers of an emulator for a test that blocks: they run in a thread of their own, all in one process.

The examples run with `kafka`, as those of the emulator do.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from regroup.testing.async_emulator import AsyncEmulator
from regroup.testing.clock.loop_thread import LoopThread, new_event_loop
from regroup.testing.errors import EmulatorDown
from regroup.testing.options import EmulatorOptions


class BlockingBrokers:
    """The brokers of an emulator. Their process can be started, killed and started again, and each of them can be
    stopped, slowed down, and made the coordinator of a group. Each method waits until that is done."""

    def __init__(self, options: EmulatorOptions) -> None:
        self.options = options
        self._thread: LoopThread | None = None
        self._emulator = AsyncEmulator(options.process_options())

    def start(self) -> Self:
        """Start the brokers; `with` does it too. Raises StoreError for a store that cannot be opened.

        >>> emulator = Emulator().start()
        >>> emulator.close()
        """
        if self._thread is not None:
            raise RuntimeError("the emulator has been started already")
        self._thread = LoopThread(lambda: new_event_loop(self.options.clock))
        try:
            self._thread.run(self._emulator.start())
        except BaseException:
            self._thread.stop()
            self._thread = None
            raise
        return self

    def close(self) -> None:
        """Stop the brokers and close the store; a second call has no effect.

        >>> kafka.close()
        """
        thread, self._thread = self._thread, None
        if thread is not None:
            try:
                thread.run(self._emulator.close())
            finally:
                thread.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> AsyncEmulator:
        return await self._emulator.start()

    async def __aexit__(self, *error: object) -> None:
        await self._emulator.close()

    @property
    def _running(self) -> LoopThread:
        if self._thread is None:
            raise EmulatorDown("the emulator is not running: use `with Emulator(...) as kafka`")
        return self._thread

    # The process

    def kill(self) -> None:
        """End as a killed process does: connections break, and what is not durable is lost. Records of topics are lost
        too, since the emulator keeps them in memory; their offsets are not used again.

        With a store in memory everything that was appended to it counts as durable.

        >>> kafka.kill()
        >>> kafka.restart()
        >>> kafka.group("billing").now().state
        <GroupState.STABLE: 'Stable'>
        """
        self._running.run(self._emulator.kill())

    def restart(self) -> None:
        """Come back on the store after `kill`, at the same addresses.

        >>> kafka.kill()
        >>> kafka.restart()
        """
        self._running.run(self._emulator.restart())

    # Single brokers

    def stop_broker(self, broker: int) -> None:
        """Stop a broker: its connections are closed, and the others lead its partitions and load its groups.

        >>> kafka.stop_broker(1)
        >>> kafka.coordinator_of("billing")
        0
        """
        self._running.run(self._emulator.stop_broker(broker))

    def start_broker(self, broker: int) -> None:
        """Start a stopped broker at its old address.

        >>> kafka.stop_broker(0)
        >>> kafka.start_broker(0)
        """
        self._running.run(self._emulator.start_broker(broker))

    def slow_broker(self, broker: int, delay_s: float) -> None:
        """Let a broker wait before it handles each request; 0 ends that.

        >>> kafka.slow_broker(0, 0.2)
        >>> kafka.slow_broker(0, 0)
        """
        self._running.run(self._emulator.slow_broker(broker, delay_s))

    def coordinator_of(self, group: str) -> int:
        """The broker that coordinates the group; -1 while none runs.

        >>> kafka.coordinator_of("billing")
        1
        """
        return self._running.run(self._emulator.coordinator_of(group))

    def move_coordinator(self, group: str, broker: int | None = None) -> int:
        """Let another broker coordinate the group, the next one if none is named; returns its id.

        The old coordinator answers NOT_COORDINATOR, and the new one loads the group. With it move the groups and the
        partitions of topics that always have the same leader as this group.

        >>> kafka.move_coordinator("billing")
        0
        """
        return self._running.run(self._emulator.move_coordinator(group, broker))

    def begin_loading(self, group: str, seconds: float | None = None) -> None:
        """Let the coordinator of the group load its groups: it refuses their requests with
        COORDINATOR_LOAD_IN_PROGRESS, for so many seconds of the emulator's clock or until `finish_loading`.

        >>> kafka.begin_loading("billing", 0.05)
        """
        self._running.run(self._emulator.begin_loading(group, seconds))

    def finish_loading(self, group: str) -> None:
        """The coordinator of the group has loaded its groups.

        >>> kafka.begin_loading("billing")
        >>> kafka.finish_loading("billing")
        """
        self._running.run(self._emulator.finish_loading(group))

    @contextmanager
    def loading(self, group: str) -> Iterator[None]:
        """The coordinator of the group loads its groups as long as the block runs.

        >>> with kafka.loading("billing"):
        ...     pass  # every request about the group is refused
        """
        self.begin_loading(group)
        try:
            yield
        finally:
            self.finish_loading(group)
