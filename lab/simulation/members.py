"""The members of a simulation: starts, stops and finds them by their names, each on a host of its own."""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Set
from functools import partial
from random import Random
from typing import Final, TypeAlias
from uuid import UUID

from regroup.lab.checker.checker import Checker
from regroup.lab.checker.members.reconnections import Reconnections
from regroup.lab.plan.plan import MemberPlan, SimulationPlan
from regroup.lab.plan.rare_steps import ErrorIsUnknown, ResponseIsLate, TopicIsUnknown
from regroup.lab.plan.sound_members import has_sound_assignor, is_impersonated, is_well_behaved
from regroup.lab.plan.validation import CLASSIC, CONSUMER, READ_COMMITTED, compiled_by_client, consumer_settings
from regroup.lab.simulation.brokers import SimulatedBrokers
from regroup.lab.simulation.clients.lab_client import LabClient
from regroup.lab.simulation.clients.late_responses import LateResponses, LateResponseTransport
from regroup.lab.simulation.clients.reader_transport import ReaderTransport
from regroup.lab.simulation.clients.transaction_requests import OLD_VERSIONS
from regroup.lab.simulation.clients.transforming import TransformingProducer
from regroup.lab.simulation.clients.unknown_errors import UnknownErrors
from regroup.lab.simulation.clients.unknown_topics import UnknownTopics
from regroup.lab.simulation.network.forwarding_transport import ChangedResponseTransport
from regroup.lab.simulation.network.observed_transports import DialledTransport, ObservedTransport, observed
from regroup.lab.simulation.network.simulated_network import SimulatedNetwork
from regroup.lab.simulation.observed_ledger import ObservedLedger
from regroup.lab.simulation.virtual_clock import START_MS
from regroup.members.consumer.effects import (
    ConsumerChange,
    ConsumerClosed,
    ConsumerError,
    ConsumerErrorKind,
    JoinedGroup,
    PartitionsLost,
    PartitionsRevoked,
)
from regroup.members.consumer.inputs import Subscribe
from regroup.members.faults import MemberFault, MemberFaultKind, parse_fault
from regroup.members.runtime.consumer_protocol_member import ConsumerProtocolMember
from regroup.members.runtime.member import SimulatedMember
from regroup.members.runtime.notes import MemberNote
from regroup.members.runtime.producer import SimulatedProducer
from regroup.members.runtime.workload import RecordLedger
from regroup.members.transports.base import MemberTransport
from regroup.members.transports.tcp import ConnectionOpener, TcpTransport
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.message import Message
from regroup.server.releases import release_named

OnMemberChange: TypeAlias = Callable[[str, ConsumerChange | ConsumerError], None]
OnRecord: TypeAlias = Callable[[TopicPartition, int], None]
LabMember: TypeAlias = SimulatedMember | ConsumerProtocolMember
PRODUCER_HOST: Final = "the producer"


class SimulatedMembers:
    """The members of a plan, by name.

    One that has crashed or left may join again, as a new process with the same name.
    """

    def __init__(
        self,
        plan: SimulationPlan,
        network: SimulatedNetwork,
        brokers: SimulatedBrokers,
        rng: Random,
        *,
        on_change: OnMemberChange,
        on_stop: Callable[[str], None],
        checker: Checker | None,
        on_note: Callable[[str, MemberNote], None] = lambda name, note: None,
        on_read_again: Callable[[str, TopicPartition, int], None] = lambda name, partition, offset: None,
    ) -> None:
        """`on_read_again` gets the name of a member with each record that its group had processed before."""
        self.by_name: dict[str, LabMember] = {}
        self._plan, self._network, self._brokers, self._rng = plan, network, brokers, rng
        self._on_change_of, self._on_stop_of, self._on_note_of = on_change, on_stop, on_note
        self._checker, self._on_read_again = checker, on_read_again
        self._ledger = RecordLedger(plan.workload.late_after_ms)
        self._former: list[LabMember] = []
        """Stopped processes of members that have joined again since, as new processes."""
        self._names: dict[str, str] = {}
        """The name of each member, by each member id that it has had."""
        self.unknown_errors, self.late_responses = UnknownErrors(), LateResponses()
        self.unknown_topics = UnknownTopics()
        self.without_assignment: set[str] = set()
        """Members whose leader has left them out: as with Kafka's consumer, every poll() of such a process fails."""
        self.processed: Counter[str] = Counter()
        """How many records each group has processed, by group id."""
        self.committed: Counter[str] = Counter()
        """How many offsets each group has committed, by group id, as its members know."""
        self._read: dict[str, set[TopicPartition]] = {}
        """By name, the partitions that a member reads: those that it has started since it got them."""
        self._transports: list[TcpTransport] = []
        self._producers: list[SimulatedProducer] = []
        self._transforms: dict[str, TransformingProducer] = {}
        """By name, the producer of each member that transforms records."""

    @property
    def has_workload(self) -> bool:
        """Whether records are produced."""
        return self._plan.workload.records_per_s > 0

    def register_member_id(self, member_id: str, name: str) -> None:
        """Note that this member id was given to the member of this name; the response with the id may still be lost."""
        self._names.setdefault(member_id, name)

    def name_of(self, member_id: str) -> str | None:
        """The name of the member that has or had this member id; None if none had."""
        return self._names.get(member_id)

    @property
    def names(self) -> dict[str, str]:
        """The name of the member that has or had each member id."""
        return dict(self._names)

    def errors_of(self, name: str) -> list[int]:
        """The error codes in the responses that a member has received, in all its processes."""
        processes = [each for each in self._all_processes() if each.name == name]
        return list(dict.fromkeys(code for each in processes for code in each.error_codes_seen))

    @property
    def processed_twice(self) -> int:
        """Number of times a record was processed again after its first time, over all members."""
        return sum(each.view.duplicate_count for each in self._all_processes())

    def _all_processes(self) -> list[LabMember]:
        return [*self._former, *self.by_name.values()]

    def read_by(self, name: str) -> Set[TopicPartition]:
        """The partitions that a member has started to read since it got them."""
        return self._read.get(name, frozenset())

    def running_members(self, group_id: str) -> dict[str, LabMember]:
        """The members of a group that run now, by name."""
        return {
            name: member
            for name, member in self.by_name.items()
            if self._plan.members[name].group == group_id and not member.is_stopped
        }

    # Starting, stopping and faults

    def join(self, name: str) -> None:
        """Start the process of the member of this name, which then joins its group; nothing happens if it runs
        already."""
        present = self.by_name.get(name)
        if present is not None and not present.is_stopped:
            return
        planned = self._plan.members[name]
        self._new_transform(name, planned)
        member = (self._consumer_member if planned.protocol == CONSUMER else self._classic_member)(name, planned)
        if present is not None:
            self._former.append(present)
        self.by_name[name] = member
        if self._checker:
            self._checker.members.add_member(
                name,
                planned.group,
                is_well_behaved=is_well_behaved(planned) and not is_impersonated(self._plan, name),
                has_sound_assignor=has_sound_assignor(planned),
                faults=[parse_fault(text) for text in planned.faults],
                reads_committed=planned.isolation_level == READ_COMMITTED,
                auto_commits=not planned.transforms_to,
                has_pattern=bool(planned.pattern) and planned.protocol == CLASSIC,
                is_classic=planned.protocol == CLASSIC,
                asks_for_metadata_alone=not self.has_workload and not planned.faults,
                settings=consumer_settings(name, planned),
                poll_stay=lambda: member.last_poll_stay,
            )
        member.start()

    def _ledger_of(self, name: str, planned: MemberPlan) -> RecordLedger:
        ledger: RecordLedger = self._ledger
        if self._checker:
            ledger = self._checker.members.ledger(planned.group, name, epoch_ms=START_MS)
        transform = self._transforms.get(name)
        on_record = transform.on_record if transform else None
        return ObservedLedger(
            ledger,
            self._read.setdefault(name, set()).add,
            partial(self._on_processed, name, planned.group, on_record),
            partial(self._on_committed, planned.group),
        )

    def _on_committed(self, group: str) -> None:
        self.committed[group] += 1

    def _on_processed(
        self, name: str, group: str, on_record: OnRecord | None, partition: TopicPartition, offset: int, is_first: bool
    ) -> None:
        self.processed[group] += 1
        if not is_first:
            self._on_read_again(name, partition, offset)
        if on_record:
            on_record(partition, offset)

    def _new_transform(self, name: str, planned: MemberPlan) -> None:
        """Make the producer of a member that transforms records, and stop that of its former process.

        A member that has failed, since another one has its instance id, keeps its producer until then.
        """
        if planned.transforms_to and self.has_workload:
            if former := self._transforms.get(name):
                former.stop()
            client = self.transactional_client(name)
            client.transport = self._with_acknowledgements(client.transport)
            self._transforms[name] = TransformingProducer(
                name,
                planned,
                client,
                self._rng,
                output_partitions=self._plan.topics[planned.transforms_to],
                generation=lambda: self.by_name[name].consumer.generation,
                now_ms=_now_ms,
                checker=self._checker,
            )

    def _classic_member(self, name: str, planned: MemberPlan) -> SimulatedMember:
        return SimulatedMember(
            name,
            consumer_settings(name, planned),
            self._observed_transport(name),
            Subscribe(planned.topics, compiled_by_client(planned.pattern) if planned.pattern else None),
            faults=[parse_fault(text) for text in planned.faults],
            workload=self._plan.workload if self.has_workload else None,
            ledger=self._ledger_of(name, planned),
            observe=self._on_change,
            on_note=self._on_note_of,
            on_process_exit=self._on_process_exit,
            epoch_ms=START_MS,
        )

    def _consumer_member(self, name: str, planned: MemberPlan) -> ConsumerProtocolMember:
        return ConsumerProtocolMember(
            name,
            consumer_settings(name, planned),
            self._observed_transport(name),
            Subscribe(planned.topics),
            pattern=planned.pattern,
            draw_member_id=lambda: str(UUID(int=self._rng.getrandbits(128), version=4)),
            faults=[parse_fault(text) for text in planned.faults],
            observe=self._on_change,
            on_note=self._on_note_of,
            on_process_exit=self._on_process_exit,
            workload=self._plan.workload if self.has_workload else None,
            ledger=self._ledger_of(name, planned),
            epoch_ms=START_MS,
        )

    def inject_fault(self, name: str, kind: MemberFaultKind, duration_ms: int | None = None) -> None:
        """Let a running member have this fault now, for `duration_ms` if it is one that lasts; nothing happens if it
        does not run."""
        member = self.by_name.get(name)
        if member is not None and not member.is_stopped:
            member.inject_fault(MemberFault(kind, duration_ms))

    def unsubscribe(self, name: str) -> None:
        """Let a running classic member unsubscribe from all topics; nothing happens if it does not run."""
        observe = self._checker.members.on_unsubscribe if self._checker else None
        self._change_subscription(name, SimulatedMember.unsubscribe, observe)

    def subscribe(self, name: str, topics: tuple[str, ...] = ()) -> None:
        """Let a running classic member subscribe to these topics, or without any to what its plan says; nothing happens
        if it does not run."""
        observe = partial(self._checker.members.on_subscribe, topics=topics) if self._checker else None
        self._change_subscription(name, partial(SimulatedMember.subscribe, topics=topics), observe)

    def _change_subscription(
        self, name: str, change: Callable[..., None], observe: Callable[[str], None] | None
    ) -> None:
        member = self.by_name.get(name)
        if not isinstance(member, SimulatedMember) or member.is_stopped:
            return
        if self._checker is None or observe is None:
            change(member)
        else:
            on_due = self._checker.members.on_subscription_call_due
            change(member, then=partial(observe, name), on_due=partial(on_due, name))

    def start_producers(self) -> None:
        """Produce records to every topic of the plan, if it has a workload."""
        outputs = {each.transforms_to for each in self._plan.members.values()}
        workload = self._plan.workload
        observer = self._checker.members.producer_observer(workload) if self._checker else None
        for topic in [each for each in self._plan.topics if each not in outputs] if self.has_workload else ():
            transport: MemberTransport = self._transport(PRODUCER_HOST)
            draw = self._rng.randrange(1 << 16)
            if observer is not None:
                observer.add_producer(topic, draw)
                transport = ObservedTransport(transport, observer.on_request, observer.on_response)
                transport = self._with_acknowledgements(transport)
            producer = SimulatedProducer(
                transport,
                topic,
                workload,
                draw=draw,
                now_ms=_now_ms,
            )
            self._producers.append(producer)
            producer.start()

    async def close(self) -> None:
        """Stop all producers, and all members without LeaveGroup."""
        for producer in self._producers:
            producer.close()
        for transform in self._transforms.values():
            transform.stop()
        for member in self.by_name.values():
            if not member.is_stopped:
                member.inject_fault(MemberFault(MemberFaultKind.CRASH))
        for transport in self._transports:
            await transport.close()

    def _transport(self, host: str, dials: Reconnections | None = None) -> TcpTransport:
        connect: ConnectionOpener = partial(self._network.connect, host)
        if dials is not None:
            connect = observed(connect, dials)
        planned = self._plan.members.get(host)
        release = release_named(planned.client) if planned is not None and planned.client else None
        versions = {key: last for key, (_, last) in release.apis.items()} if release else None
        transport = TcpTransport(self._brokers.addresses, client_id=host, connect=connect, max_versions=versions)
        self._transports.append(transport)
        return transport

    def other_client(self, host: str, max_versions: Mapping[int, int] | None = None) -> LabClient:
        """Make a client on this host that is no member. `max_versions` limits the versions of its requests, by API
        key."""
        connect = partial(self._network.connect, host)
        transport = TcpTransport(self._brokers.addresses, client_id=host, connect=connect, max_versions=max_versions)
        self._transports.append(transport)
        return LabClient(transport)

    def transactional_client(self, host: str) -> LabClient:
        """Make the client of a producer with a transactional id on this host. The checker sees what it sends and
        gets."""
        client = self.other_client(host, OLD_VERSIONS)
        if self._checker is not None:
            checker = self._checker
            client.transport = ObservedTransport(
                client.transport, checker.on_producer_request, checker.on_producer_response
            )
        return client

    def _observed_transport(self, name: str) -> MemberTransport:
        if self._checker is None:
            return self._with_planned_responses(name, self._transport(name))
        dials = self._checker.members.reconnections_of(name)
        transport = self._with_planned_responses(name, DialledTransport(self._transport(name, dials), dials))
        if self._plan.members[name].isolation_level == READ_COMMITTED:
            transport = ReaderTransport(transport, self._checker.outputs.on_fetched)
        return ObservedTransport(
            transport, partial(self._on_request, name), partial(self._checker.members.on_response, name)
        )

    def _with_acknowledgements(self, transport: MemberTransport) -> MemberTransport:
        """The transport of a producer, which reports the records that brokers acknowledge to the checker, if there is
        one."""
        if self._checker is None:
            return transport
        acknowledged = self._checker.members.acknowledged
        return ObservedTransport(transport, acknowledged.on_request, acknowledged.on_produced)

    def _with_planned_responses(self, name: str, transport: MemberTransport) -> MemberTransport:
        """The transport, with unknown error codes and topics in responses and with late ones if the plan has such
        steps."""
        steps = {type(each.step) for each in self._plan.steps}
        if ErrorIsUnknown in steps:
            transport = ChangedResponseTransport(transport, partial(self.unknown_errors.replaced, name))
        if TopicIsUnknown in steps:
            transport = ChangedResponseTransport(transport, partial(self.unknown_topics.replaced, name))
        if ResponseIsLate in steps:
            transport = LateResponseTransport(transport, partial(self.late_responses.taken_delay_ms, name))
        return transport

    def _on_request(self, name: str, message: Message) -> None:
        assert self._checker is not None
        self._checker.members.on_request(name, message)
        if outside_poll_ms := self.by_name[name].outside_poll_ms:
            limit_ms = self._plan.members[name].max_poll_interval_ms
            self._checker.members.on_request_outside_poll(name, message, outside_poll_ms, limit_ms)

    def _on_process_exit(self, name: str) -> None:
        self._network.stop_host(name)
        self._read.get(name, set()).clear()
        if name in self._transforms:
            self._transforms[name].stop()
        if self._checker:
            self._checker.members.on_stop(name, round(asyncio.get_running_loop().time() * 1000))
        self._on_stop_of(name)

    def _on_change(self, name: str, change: ConsumerChange | ConsumerError) -> None:
        if isinstance(change, JoinedGroup):
            self._names[change.member_id] = name
            self.without_assignment.discard(name)
        elif isinstance(change, ConsumerError) and change.kind is ConsumerErrorKind.ASSIGNMENT:
            self.without_assignment.add(name)
        elif isinstance(change, PartitionsRevoked | PartitionsLost):
            self._read.get(name, set()).difference_update(change.partitions)
            if name in self._transforms:
                self._transforms[name].drop(change.partitions)
        elif isinstance(change, ConsumerClosed) and name in self._transforms:
            self._transforms[name].stop()
        self._on_change_of(name, change)


def _now_ms() -> int:
    return START_MS + round(asyncio.get_running_loop().time() * 1000)
