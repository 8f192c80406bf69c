"""The emulator for a test that blocks: it runs in a thread of its own, and each method waits until its act is durable.

The examples run with `kafka`, an emulator of two brokers with the topic `orders` of two partitions. Its group `billing`
has the members `first` and `second`, named by their client ids.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Unpack

from regroup.server.recording.exchange import RecordedExchange
from regroup.testing.blocking_brokers import BlockingBrokers
from regroup.testing.blocking_connection import BlockingConnection
from regroup.testing.clock.deadlines import PassedDeadline
from regroup.testing.faults import FaultConditions, FaultHandle, FaultOptions
from regroup.testing.groups.handle import GroupHandle
from regroup.testing.groups.views import PartitionName
from regroup.testing.options import DEFAULT_WAIT_TIMEOUT_S, ClockKind, EmulatorOptions, SettingValues, StorePath
from regroup.testing.topics import TopicRecord


class Emulator(BlockingBrokers):
    """Brokers on free ports of this machine, as a context manager.

    >>> with Emulator(topics={"orders": 6}) as emulator:
    ...     emulator.bootstrap_servers.startswith("127.0.0.1:")
    True

    `topics` are created at the start, with their numbers of partitions. `settings` are Kafka's, by name; for tests the
    initial rebalance delay is 0 and the shortest session timeout 1 ms. The history is in memory, or in the SQLite file
    `store`, which `regroup events`, `replay` and `verify` can read. With `clock="manual"` no timer of the brokers
    fires before `advance`. With `create_topics` clients create topics by asking for them. `wait_timeout_s` is how long
    a wait for a group may take. With `record=False` no exchanges are kept;
    otherwise the file `store` has them too, for `regroup exchanges`.

    `async with Emulator(...) as kafka` runs the brokers in the running loop instead; `kafka` is an AsyncEmulator, whose
    methods have the same names and are awaited. In unittest, `self.enterContext(Emulator())`.
    """

    def __init__(
        self,
        *,
        topics: Mapping[str, int] | None = None,
        brokers: int = 1,
        settings: SettingValues | None = None,
        store: StorePath | None = None,
        clock: ClockKind = "real",
        create_topics: bool = False,
        wait_timeout_s: float = DEFAULT_WAIT_TIMEOUT_S,
        record: bool = True,
    ) -> None:
        options = EmulatorOptions(
            topics=topics or {},
            brokers=brokers,
            settings=settings or {},
            store=None if store is None else Path(store),
            clock=clock,
            create_topics=create_topics,
            wait_timeout_s=wait_timeout_s,
            record=record,
        )
        super().__init__(options)

    # History

    def save(self, path: StorePath, *, exchanges: bool = False) -> None:
        """Write the history to a SQLite file, for `regroup events`, `replay` and `verify`.

        With `exchanges` the recorded ones too, for `regroup exchanges` and `why`. Raises ActRefused for a history whose
        first events have been trimmed.

        >>> kafka.save(folder / "history.db", exchanges=True)
        """
        self._running.run(self._emulator.save(Path(path), exchanges=exchanges))

    def position(self) -> int:
        """The position of the last event in the history.

        >>> kafka.position() > 10
        True
        """
        return self._emulator.position()

    def story(self, *, since: int = 0) -> str:
        """The last events and requests of every group that has changed since a position.

        >>> print(kafka.story().splitlines()[0])
        group 'billing':
        """
        return self._running.run(self._emulator.story(since=since))

    def unique_name(self, name: str) -> str:
        """A name that this emulator has not given out before, for tests that share an emulator.

        >>> kafka.unique_name("billing"), kafka.unique_name("billing")
        ('billing-1', 'billing-2')
        """
        return self._emulator.unique_name(name)

    # Addresses

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, for `bootstrap.servers` of any client.

        >>> [address.split(":")[0] for address in kafka.bootstrap_servers.split(",")]
        ['127.0.0.1', '127.0.0.1']
        """
        return self._emulator.bootstrap_servers

    def connect(self, client_id: str = "test", *, broker: int = 0, group: str | None = None) -> BlockingConnection:
        """A connection that sends any request of any version as an object, and returns the response as an object.

        It goes to the broker, or to the one that coordinates the group at present.

        >>> from regroup.protocol.messages.cluster import MetadataRequest
        >>> with kafka.connect() as connection:
        ...     connection.send(MetadataRequest(topics=None)).topics[-1].name
        'orders'
        """
        thread = self._running
        connection = thread.run(self._emulator.connect(client_id, broker=broker, group=group))
        return BlockingConnection(thread, connection, self.options.wait_timeout_s)

    # Groups and clients

    def group(self, name: str) -> GroupHandle:
        """A handle that looks at the group, waits for it and acts on it. The group need not exist yet.

        >>> kafka.group("billing").now().generation
        2
        """
        return GroupHandle(self._running, self._emulator.group(name))

    def groups(self) -> list[str]:
        """The names of all groups that exist.

        >>> kafka.groups()
        ['billing']
        """
        return self._running.run(self._emulator.groups())

    def committed(self, group: str) -> Mapping[PartitionName, int]:
        """The committed offsets of a group: of each partition the next record that the group will read.

        >>> dict(kafka.committed("billing"))
        {('orders', 0): 1}
        """
        return self._running.run(self._emulator.committed(group))

    def crash_client(self, name: str) -> None:
        """Let a client look crashed: its connections are closed, nothing is answered on new ones until
        `revive_client`, and its sessions end now instead of after their timeout.

        The client is named by its client id, or by the instance id or member id of a member. Clients are
        distinguished by their client ids, so each needs its own.

        >>> kafka.crash_client("second")
        >>> kafka.group("billing").now().state
        <GroupState.PREPARING_REBALANCE: 'PreparingRebalance'>
        """
        self._running.run(self._emulator.crash_client(name))

    def revive_client(self, name: str) -> None:
        """Answer a crashed client again, also the requests that it has sent in the meantime.

        >>> kafka.crash_client("second")
        >>> kafka.revive_client("second")
        """
        self._running.run(self._emulator.revive_client(name))

    # Faults

    def fault(self, **rule: Unpack[FaultOptions]) -> FaultHandle:
        """Put a fault rule in force: what happens to the requests of which its conditions hold.

        Conditions: `on` (the API, or several), `version`, `group`, `member_id`, `instance_id`, `client_id`, `topic`,
        `partitions`, `broker`, `generation`, `skip` (so many pass first), `times` (so many are hit), `chance` with
        `seed`.

        Effects: `answer` (an error code, and the request is not applied), `partition_error` (an error code for
        `partitions` of `topic`, and the rest is applied), `delay_s`, `answer_delay_s`, `throttle_ms`, `drop="request"`
        (neither applied nor answered), `drop="answer"` (applied and not answered), `close="before"` or `"after"`
        applying it, `cut="frame"` or `"body"` (applied, and the answer ends early, at `cut_at`), `false_answer`
        (applied, and the answer is legal and false), `repeat` (applied twice). Of several rules the first that hits a
        request decides.

        The rule ends with the `with` block, with `remove`, or after `expires_after_s`. Raises InvalidFault.

        >>> rule = kafka.fault(on="OffsetCommit", group="billing", answer=ErrorCode.COORDINATOR_NOT_AVAILABLE, times=2)
        >>> rule.hits
        0

        One partition fails, and the others are committed:

        >>> code = ErrorCode.OFFSET_METADATA_TOO_LARGE
        >>> rule = kafka.fault(on="OffsetCommit", topic="orders", partitions=(1,), partition_error=code)

        The first 10 bytes of the answer are sent, and the connection is closed; or half of it is, in a complete frame:

        >>> rule = kafka.fault(on="SyncGroup", cut="frame", cut_at=10)
        >>> rule = kafka.fault(on="Metadata", cut="body", cut_at=0.5)

        A follower takes itself for the leader, and a client reads the last record again:

        >>> rule = kafka.fault(on="JoinGroup", client_id="second", false_answer="second_leader", times=1)
        >>> rule = kafka.fault(on="OffsetFetch", false_answer="older_offset")
        """
        return FaultHandle(self._running, self._running.run(self._emulator.fault(**rule)))

    def hold(self, on: str, **conditions: Unpack[FaultConditions]) -> FaultHandle:
        """Hold the requests to an API until they are released.

        >>> with kafka.hold("SyncGroup", client_id="first") as held:
        ...     held.release()
        """
        return FaultHandle(self._running, self._running.run(self._emulator.hold(on, **conditions)))

    # Exchanges

    def exchanges(
        self, *, api: str | tuple[str, ...] = (), client_id: str = "", group: str = "", member: str = ""
    ) -> list[RecordedExchange]:
        """The latest requests and their responses, the oldest first; a run of equal heartbeats is one with a count.

        `member` is a member id, an instance id or a client id. `events` of an exchange are those to which it led.

        >>> [exchange.answer for exchange in kafka.exchanges(api="SyncGroup", client_id="first")]
        ['NONE', 'NONE']
        >>> [event.group for event in kafka.exchanges(api="JoinGroup", member="second")[0].events]
        ['billing', 'billing']
        """
        selected = self._emulator.exchanges(api=api, client_id=client_id, group=group, member=member)
        return self._running.run(selected)

    def assert_exchanges(
        self,
        expected: list[str],
        *,
        api: str | tuple[str, ...] = (),
        client_id: str = "",
        group: str = "",
        member: str = "",
    ) -> None:
        """Raise AssertionError, with the exchanges, unless they are those of these APIs in this order.

        An entry may name the answer too: `"Heartbeat: UNKNOWN_MEMBER_ID"`.

        >>> kafka.assert_exchanges(["JoinGroup", "SyncGroup: NONE"], client_id="second", group="billing")
        """
        self._running.run(
            self._emulator.assert_exchanges(expected, api=api, client_id=client_id, group=group, member=member)
        )

    # Topics and records

    def topics(self) -> dict[str, int]:
        """The topics with their numbers of partitions.

        >>> kafka.topics()
        {'orders': 2}
        """
        return self._running.run(self._emulator.topics())

    def create_topic(self, name: str, partitions: int = 1) -> None:
        """Create a topic.

        >>> kafka.create_topic("invoices", 3)
        """
        self._running.run(self._emulator.create_topic(name, partitions))

    def add_partitions(self, name: str, partitions: int) -> None:
        """Let the topic have so many partitions, more than it has now.

        >>> kafka.add_partitions("orders", 8)
        """
        self._running.run(self._emulator.add_partitions(name, partitions))

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and the offsets that groups have committed in it.

        >>> kafka.delete_topic("orders")
        """
        self._running.run(self._emulator.delete_topic(name))

    def produce(
        self,
        topic: str,
        value: bytes | str | None,
        *,
        key: bytes | str | None = None,
        partition: int = 0,
        headers: Mapping[str, bytes] | None = None,
    ) -> TopicRecord:
        """Append a record to a partition. The key does not select the partition, as a client's partitioner would.

        >>> kafka.produce("orders", "two apples", key="anna").offset
        1
        """
        return self._running.run(self._emulator.produce(topic, value, key=key, partition=partition, headers=headers))

    def records(self, topic: str, partition: int | None = None) -> list[TopicRecord]:
        """The records of a topic, or of one of its partitions, in the order of partition and offset.

        >>> [record.text for record in kafka.records("orders")]
        ['one pear']
        """
        return self._running.run(self._emulator.records(topic, partition))

    # Time

    def now_ms(self) -> int:
        """The time of the brokers in epoch milliseconds; with a manual clock it stands still.

        >>> kafka.now_ms() > 1_700_000_000_000
        True
        """
        return self._emulator.now_ms()

    def advance(self, seconds: float) -> None:
        """Turn the manual clock forwards, and return when all that fell due is durable and answered.

        Every timer of the brokers follows this clock: sessions, join and sync phases, delays, long polls,
        transactions, retention, idle connections. Clients, and the waits of a test, run in real time.

        >>> with Emulator(clock="manual") as emulator:
        ...     before_ms = emulator.now_ms()
        ...     emulator.advance(45)
        ...     emulator.now_ms() - before_ms
        45000
        """
        self._running.run(self._emulator.advance(seconds))

    def advance_to_next_deadline(self) -> PassedDeadline:
        """Turn the manual clock to the next deadline of a group or a transaction, and return what fell due.

        >>> from regroup.protocol.messages.group import *
        >>> with Emulator(clock="manual") as emulator, emulator.connect() as connection:
        ...     range_assignor = JoinGroupRequestProtocol(name="range", metadata=b"")
        ...     join = JoinGroupRequest(
        ...         group_id="g", session_timeout_ms=9_000, protocol_type="consumer", protocols=[range_assignor]
        ...     )
        ...     error_code = connection.send(join, version=4).error_code    # a member id comes with it, and is not used
        ...     emulator.advance_to_next_deadline().kind
        'pending-join'
        """
        return self._running.run(self._emulator.advance_to_next_deadline())
