"""A client of the group under test: it sends requests, and keeps what the responses say about its membership."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from regroup.coordinator import commands as c
from regroup.coordinator.supported_protocol import SupportedProtocol
from regroup.protocol.consumer.subscription import Subscription, encode_subscription
from regroup.protocol.errors import ErrorCode
from tests.coordinator.group_driver import GROUP_ID, GroupDriver, SentRequest
from tests.coordinator.join_requests import join_request


@dataclass
class SimulatedClient:
    """A consumer, or another client of the group protocol. Its first member id is its name."""

    driver: GroupDriver
    name: str
    version: int = 9
    """Version of its JoinGroup requests."""
    instance_id: str | None = None
    protocol_type: str = "consumer"
    protocol_names: tuple[str, ...] = ("range", "roundrobin")
    topics: tuple[str, ...] = ("foo",)
    metadata: bytes | None = None
    """Sent in place of a subscription to the topics."""
    session_timeout_ms: int = 10_000
    rebalance_timeout_ms: int = 60_000
    client_id: str = "c"
    client_host: str = "/10.0.0.7"
    member_id: str = ""
    generation_id: int = -1
    processes: int = field(default=1, repr=False)
    """How many processes of this client there have been; each one gets another member id."""
    join_response: Any = field(default=None, repr=False)
    """The last JoinGroup response without an error."""

    def new_member_id(self) -> str:
        return self.name if self.processes == 1 else f"{self.name}-{self.processes}"

    def supported_protocols(self) -> tuple[SupportedProtocol, ...]:
        metadata = encode_subscription(Subscription(3, self.topics)) if self.metadata is None else self.metadata
        return tuple(SupportedProtocol(name, metadata) for name in self.protocol_names)

    def send_join(self, **fields: Any) -> SentRequest:
        """Send one JoinGroup, with the member id if there is one."""
        defaults: dict[str, Any] = {
            "group_id": GROUP_ID,
            "at_ms": self.driver.now_ms,
            "member_id": self.member_id,
            "new_member_id": self.new_member_id(),
            "topics": self.driver.topics,
            "instance_id": self.instance_id,
            "client_id": self.client_id,
            "client_host": self.client_host,
            "session_timeout_ms": self.session_timeout_ms,
            "rebalance_timeout_ms": self.rebalance_timeout_ms,
            "protocol_type": self.protocol_type,
            "supported_protocols": self.supported_protocols(),
            "supports_member_id_required": self.version >= 4,
            "supports_skip_assignment": self.version >= 9,
        }
        return self.driver.handle(join_request(**defaults | fields), self._on_join_response)

    def join(self, **fields: Any) -> SentRequest:
        """Send JoinGroup, and once more after MEMBER_ID_REQUIRED."""
        request = self.send_join(**fields)
        if not request.is_pending and request.code is ErrorCode.MEMBER_ID_REQUIRED:
            return self.send_join(**fields)
        return request

    def _on_join_response(self, response: Any) -> None:
        if response.error_code in (ErrorCode.NONE, ErrorCode.MEMBER_ID_REQUIRED):
            self.member_id = response.member_id
        if response.error_code == ErrorCode.NONE:
            self.join_response, self.generation_id = response, response.generation_id

    @property
    def is_leader(self) -> bool:
        return self.join_response is not None and self.join_response.leader == self.member_id

    def restart(self) -> "SimulatedClient":
        """Start a new process, which keeps the instance id and nothing else. Returns the former process."""
        former = SimulatedClient(**{name: getattr(self, name) for name in self.__dataclass_fields__})
        self.member_id, self.generation_id, self.join_response = "", -1, None
        self.processes += 1
        return former

    def sync(self, assignments: Mapping[str, bytes] | None = None, **fields: Any) -> SentRequest:
        """Send SyncGroup. By default the leader assigns `assignment of <member id>` to each member."""
        if assignments is None and self.is_leader and not self.join_response.skip_assignment:
            members = self.join_response.members
            assignments = {each.member_id: f"assignment of {each.member_id}".encode() for each in members}
        defaults = self._member_fields() | {
            "protocol_type": self.protocol_type,
            "protocol_name": self.join_response.protocol_name if self.join_response else None,
            "assignments": assignments or {},
            "topics": self.driver.topics,
        }
        return self.driver.handle(c.SyncGroup(**defaults | fields))

    def heartbeat(self, **fields: Any) -> SentRequest:
        return self.driver.handle(c.Heartbeat(**self._member_fields() | fields))

    def leave(self, reason: str = "") -> SentRequest:
        leaving = (c.LeavingMember(self.member_id, self.instance_id, reason),)
        command = c.LeaveGroup(group_id=GROUP_ID, at_ms=self.driver.now_ms, members=leaving, topics=self.driver.topics)
        return self.driver.handle(command)

    def commit(self, *offsets: tuple[str, int, int], **fields: Any) -> SentRequest:
        """Commit offsets, each given as (topic, partition, offset); by default 100 in foo-0."""
        defaults = self._member_fields()
        return self.driver.handle(
            commit_command(self.driver.now_ms, offsets or (("foo", 0, 100),), **defaults | fields)
        )

    def _member_fields(self) -> dict[str, Any]:
        """The fields that every request of a member has."""
        return {
            "group_id": GROUP_ID,
            "at_ms": self.driver.now_ms,
            "generation_id": self.generation_id,
            "member_id": self.member_id,
            "group_instance_id": self.instance_id,
        }


def sync_all(clients: list[SimulatedClient]) -> None:
    """Send the SyncGroup of each client, the leader's first."""
    for client in sorted(clients, key=lambda each: not each.is_leader):
        client.sync()


def commit_command(at_ms: int, offsets: Iterable[tuple[str, int, int]], /, **fields: Any) -> c.OffsetCommit:
    """An OffsetCommit, from offsets given as (topic, partition, offset)."""
    defaults: dict[str, Any] = {"group_id": GROUP_ID, "at_ms": at_ms, "offsets": requested_offsets(offsets)}
    return c.OffsetCommit(**defaults | fields)


def requested_offsets(offsets: Iterable[tuple[str, int, int]]) -> tuple[c.RequestedOffset, ...]:
    return tuple(c.RequestedOffset(topic, partition, offset) for topic, partition, offset in offsets)
