"""The emulator for asyncio: the brokers run in the event loop of the caller. Each method is that of `Emulator` with the
same name, as a coroutine.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from itertools import count
from pathlib import Path
from typing import Unpack

from regroup.protocol.client import ClientConnection
from regroup.server.faults.rule import checked_rule
from regroup.server.recording.blocks import BlockEncoder
from regroup.server.recording.exchange import RecordedExchange
from regroup.server.recording.selection import ExchangeFilter
from regroup.storage.journal import Journal
from regroup.storage.store import append_history
from regroup.testing.clock.advancing import advance_to, settle
from regroup.testing.clock.deadlines import PassedDeadline, next_deadline_of
from regroup.testing.errors import ActRefused, EmulatorDown
from regroup.testing.exchanges import check_exchanges
from regroup.testing.faults import AsyncFault, FaultConditions, FaultOptions
from regroup.testing.groups.async_group import AsyncGroup
from regroup.testing.groups.views import PartitionName, view_of
from regroup.testing.interference import abort_client, find_client_id
from regroup.testing.options import RECORD_MAX_BYTES, ProcessOptions
from regroup.testing.process import EmulatorProcess
from regroup.testing.topics import (
    TopicRecord,
    add_partitions,
    append_record,
    as_bytes,
    create_topic,
    delete_topic,
    topic_records,
)

MAX_GROUPS_IN_STORY = 5


class AsyncEmulator(EmulatorProcess):
    """The brokers, in the running loop: `async with Emulator(...) as kafka`."""

    def __init__(self, options: ProcessOptions) -> None:
        super().__init__(options)
        self._name_numbers = count(1)
        self._connections: list[ClientConnection] = []
        self._loads: dict[str, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        self._stop_loads()
        try:
            for connection in self._connections:
                await connection.close()
        finally:
            await super().close()

    async def kill(self) -> None:
        self._stop_loads()
        await super().kill()

    # History

    def position(self) -> int:
        """The position of the last event in the history."""
        return self.history.last_position

    def unique_name(self, name: str) -> str:
        return f"{name}-{next(self._name_numbers)}"

    async def story(self, *, since: int = 0) -> str:
        after = max(since, self.history.trimmed_through)
        heads = (await self.history.heads()).items()
        touched = sorted((head.position, name) for name, head in heads if name is not None and head.position > after)
        names = [name for _, name in touched[-MAX_GROUPS_IN_STORY:]]
        stories = [f"group {name!r}:\n{await self.group(name).story()}" for name in names]
        if len(touched) > len(names):
            stories.insert(0, f"{len(touched)} groups were touched; the last {len(names)} are:")
        return "\n\n".join(stories) or "no group was touched"

    async def save(self, path: Path, *, exchanges: bool = False) -> None:
        from regroup.storage.sqlite.threaded import open_store  # noqa: PLC0415  # only a test that failed needs it

        if trimmed_through := self.history.trimmed_through:
            raise ActRefused(
                f"the events up to position {trimmed_through} have been trimmed, so the others cannot be saved as a "
                "history; `regroup copy` copies a store with its snapshots"
            )
        records = [record async for record in self.history.read()]
        async with await open_store(path, durability="process") as copy:
            if copy.last_position:
                raise FileExistsError(f"{path} holds a history already: name another file")
            await append_history(copy, records)
            if exchanges and self.recorder is not None:
                for block in BlockEncoder().encode(self.recorder.rows(), self.now_ms()):
                    await copy.append_exchanges(block, max_bytes=RECORD_MAX_BYTES)

    # Addresses

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers: `127.0.0.1:40001,127.0.0.1:40002`."""
        if not self.ports:
            raise EmulatorDown("the emulator has no addresses before it is started")
        if advertise := self.options.cluster.advertise:
            host, first = advertise
            return ",".join(f"{host}:{first + node_id}" for node_id in range(len(self.ports)))
        return ",".join(f"127.0.0.1:{port}" for port in self.ports)

    async def connect(self, client_id: str = "test", *, broker: int = 0, group: str | None = None) -> ClientConnection:
        if group is not None:
            broker = await self.coordinator_of(group)
        self._check_broker(broker)
        connection = await ClientConnection.open("127.0.0.1", self.ports[broker], client_id)
        self._connections = [each for each in self._connections if not each.is_lost]
        self._connections.append(connection)
        return connection

    # Groups and clients

    def group(self, name: str) -> AsyncGroup:
        """The handle of the group with this name, which need not exist yet."""
        return AsyncGroup(self, name)

    async def groups(self) -> list[str]:
        return [group.group_id for group in self.cluster.groups()]

    async def committed(self, group: str) -> Mapping[PartitionName, int]:
        return (await self.group(group).now()).committed

    async def crash_client(self, name: str) -> None:
        client_id = self._client_id_of(name)
        for each in self.cluster.groups():
            if any(member.profile.client_id == client_id for member in each.members.values()):
                self.group(each.group_id).check_coordinator()
        self.interference.crash(client_id, name)
        abort_client(self.cluster.brokers, client_id)
        for group in await self.groups():
            await self.group(group).end_sessions_of(client_id)

    async def revive_client(self, name: str) -> None:
        self.interference.revive(self.interference.crashed_client(name) or self._client_id_of(name))

    def _client_id_of(self, name: str) -> str:
        cluster = self.cluster
        return find_client_id(cluster.brokers, [view_of(group, cluster.state) for group in cluster.groups()], name)

    # Brokers

    async def stop_broker(self, broker: int) -> None:
        self._check_broker(broker)
        await self.cluster.stop_broker(broker)
        self.changes.notify()

    async def start_broker(self, broker: int) -> None:
        self._check_broker(broker)
        await self.cluster.start_broker(broker)
        self.changes.notify()

    async def slow_broker(self, broker: int, delay_s: float) -> None:
        self._check_broker(broker)
        if delay_s > 0:
            self.interference.delays_s[broker] = delay_s
        else:
            self.interference.delays_s.pop(broker, None)
        for connection in self.cluster.brokers[broker].connections():
            connection.forget_cached_response()

    def _check_broker(self, broker: int) -> None:
        brokers = self.options.cluster.brokers
        if not 0 <= broker < brokers:
            raise ValueError(f"unknown broker: {broker}; there are {brokers}, counted from 0")

    async def coordinator_of(self, group: str) -> int:
        state = self.cluster.state
        return state.leader_of(state.partition_of_group(group))

    async def move_coordinator(self, group: str, broker: int | None = None) -> int:
        present = await self.coordinator_of(group)
        listening = sorted(self.cluster.state.nodes)
        if broker is None:
            others = [node_id for node_id in listening if node_id != present]
            if not others:
                raise ActRefused("a coordinator moves to another broker, and only one runs: Emulator(brokers=2)")
            broker = next((node_id for node_id in others if node_id > present), others[0])
        if broker not in listening:
            raise ActRefused(f"broker {broker} does not run; running: {', '.join(map(str, listening)) or 'none'}")
        await self.cluster.move_coordinator(group, broker)
        self.changes.notify()
        return broker

    async def begin_loading(self, group: str, seconds: float | None = None) -> None:
        if seconds is not None and not seconds >= 0:
            raise ValueError(f"invalid seconds: {seconds}; give 0 or more")
        self.cluster.begin_load(group)
        if (earlier := self._loads.pop(group, None)) is not None:
            earlier.cancel()
        if seconds is not None:
            self._loads[group] = asyncio.get_running_loop().call_later(seconds, self._finish_later, group)

    def _finish_later(self, group: str) -> None:
        task = asyncio.get_running_loop().create_task(self.finish_loading(group))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish_loading(self, group: str) -> None:
        timer = self._loads.pop(group, None)
        if timer is not None:
            timer.cancel()
        await self.cluster.finish_load(group)

    @asynccontextmanager
    async def loading(self, group: str) -> AsyncIterator[None]:
        """Within the `async with` block, the coordinator of the group is loading its groups."""
        await self.begin_loading(group)
        try:
            yield
        finally:
            await self.finish_loading(group)

    def _stop_loads(self) -> None:
        for timer in self._loads.values():
            timer.cancel()
        self._loads.clear()
        for task in self._tasks:
            task.cancel()

    # Faults

    async def fault(self, **rule: Unpack[FaultOptions]) -> AsyncFault:
        rules = self.interference.faults
        return AsyncFault(rules, rules.add(checked_rule(**rule)), self.changes, self.wait_timeout_s)

    async def hold(self, on: str, **conditions: Unpack[FaultConditions]) -> AsyncFault:
        return await self.fault(on=on, hold=True, **conditions)

    async def exchanges(
        self, *, api: str | tuple[str, ...] = (), client_id: str = "", group: str = "", member: str = ""
    ) -> list[RecordedExchange]:
        apis = (api,) if isinstance(api, str) and api else tuple(api)
        wanted = ExchangeFilter(apis=apis, client_id=client_id, group=group, member=member)
        exchanges = await self.recorded_exchanges(wanted)
        if exchanges is None:
            raise ActRefused("this emulator does not record exchanges: Emulator(record=True)")
        return exchanges

    async def assert_exchanges(
        self,
        expected: list[str],
        *,
        api: str | tuple[str, ...] = (),
        client_id: str = "",
        group: str = "",
        member: str = "",
    ) -> None:
        check_exchanges(expected, await self.exchanges(api=api, client_id=client_id, group=group, member=member))

    # Topics and records

    async def topics(self) -> dict[str, int]:
        return {topic.name: topic.partitions for topic in self.cluster.state.topics.values() if not topic.is_internal}

    async def create_topic(self, name: str, partitions: int = 1) -> None:
        create_topic(self.cluster.state, name, partitions)
        await self._wait_until_durable()

    async def add_partitions(self, name: str, partitions: int) -> None:
        add_partitions(self.cluster.state, name, partitions)
        await self._wait_until_durable()

    async def delete_topic(self, name: str) -> None:
        delete_topic(self.cluster.state, name)
        await self._wait_until_durable()

    async def produce(
        self,
        topic: str,
        value: bytes | str | None,
        *,
        key: bytes | str | None = None,
        partition: int = 0,
        headers: Mapping[str, bytes] | None = None,
    ) -> TopicRecord:
        state = self.cluster.state
        record = append_record(state, (topic, partition), as_bytes(key), as_bytes(value), headers or {})
        await self._wait_until_durable()
        self.changes.notify()
        return record

    async def records(self, topic: str, partition: int | None = None) -> list[TopicRecord]:
        return list(topic_records(self.cluster.state, topic, partition))

    async def _wait_until_durable(self) -> None:
        journal = self.cluster.journal
        await journal.wait_until_durable(journal.last_position)

    # Time

    async def advance(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError(f"time only goes forwards: {seconds} s")
        loop = self.manual_loop()
        await advance_to(loop, loop.manual_ms + round(seconds * 1000), self._journal)

    async def advance_to_next_deadline(self) -> PassedDeadline:
        loop = self.manual_loop()
        await settle(loop, self._journal)
        deadline = next_deadline_of(self.cluster)
        if deadline is None:
            raise ActRefused("no group and no transaction has a deadline")
        await advance_to(loop, loop.manual_ms + max(1, deadline.at_ms - self.now_ms()), self._journal)
        return deadline

    def _journal(self) -> Journal | None:
        return self._cluster.journal if self._cluster else None
