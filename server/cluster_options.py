"""The settings of a broker cluster, where its brokers listen, and its environment: the clock, ids and network."""

from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.settings import CoordinatorSettings
from regroup.server.broker import ListenFunction
from regroup.server.clock import Clock
from regroup.server.limits import DEFAULT_MAX_RESPONSE_BYTES
from regroup.server.net.request_gate import RequestGate
from regroup.server.recording.recorder import Recorder
from regroup.server.releases import Release, newest_release
from regroup.server.settings import BrokerSettings

DEFAULT_SNAPSHOT_INTERVAL_RECORDS = 50_000
"""The default number of records between two snapshots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterOptions:
    """The settings of a broker cluster, and where its brokers listen.

    Broker n listens on `port` + n, or on a free port if `port` is 0; `ports` names the port of each broker instead.
    `advertise` is the address that clients get for broker 0, for containers and tunnels. `release` limits the APIs to
    those of one release of Apache Kafka, the newest one by default; None serves every version that the codec knows. A
    response beyond `max_response_bytes` closes its connection.
    """

    settings: CoordinatorSettings = field(default_factory=CoordinatorSettings)
    broker_settings: BrokerSettings = field(default_factory=BrokerSettings)
    brokers: int = 1
    host: str = "127.0.0.1"
    port: int = 0
    ports: tuple[int, ...] = ()
    advertise: tuple[str, int] | None = None
    release: Release | None = field(default_factory=newest_release)
    max_response_bytes: int = DEFAULT_MAX_RESPONSE_BYTES
    snapshot_interval_records: int = DEFAULT_SNAPSHOT_INTERVAL_RECORDS
    """Records between two snapshots; 0 for a snapshot at the end alone."""
    keep_ms: int = 0
    """For how long events are kept, in milliseconds; older ones are trimmed while the brokers run. 0 keeps all."""
    record_max_bytes: int = 0
    """How much of the store the recorded exchanges may take, compressed; with 0 none are stored."""

    def port_of(self, node_id: int) -> int:
        """The port on which the broker with this node id is to listen; 0 lets the system choose a free one."""
        if self.ports:
            return self.ports[node_id]
        return self.port + node_id if self.port else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterEnvironment:
    """The clock, ids and network of a broker cluster. By default they are those of the machine; a simulation passes its
    own.

    `coordinator_factory` is called with the arguments of GroupCoordinator, once for each coordinator; `gate_factory` is
    called with a broker's node id and returns the gate of that broker.
    """

    clock: Clock = field(default_factory=Clock)
    new_uuid: Callable[[], UUID] = uuid4
    listen: ListenFunction | None = None
    coordinator_factory: Callable[..., GroupCoordinator] = GroupCoordinator
    gate_factory: Callable[[int], RequestGate] | None = None
    recorder: Recorder | None = None
    """Keeps the exchanges of all brokers. If None, a recorder is made only if `record_max_bytes` asks for stored
    exchanges."""
