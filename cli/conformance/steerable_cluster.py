"""An emulator in this process that elects the leaders which another broker has elected before."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial

from regroup.coordinator.decision import first_candidate
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.settings import CoordinatorSettings
from regroup.server.broker_cluster import BrokerCluster, ClusterEnvironment, ClusterOptions


class SteerableCluster:
    """One broker of the newest release whose leaders can be chosen; without a choice, the member that joined first."""

    def __init__(self) -> None:
        self.address = ""
        self._preferred: dict[str, str] = {}

    def prefer_leader(self, group_id: str, member_id: str) -> None:
        """Elect this member when the group next needs another leader."""
        self._preferred[group_id] = member_id

    def choose_leader(self, group_id: str, candidates: Sequence[str]) -> str:
        """The policy of its coordinators."""
        preferred = self._preferred.get(group_id, "")
        return preferred if preferred in candidates else first_candidate(group_id, candidates)


@asynccontextmanager
async def run_steerable_cluster(settings: Mapping[str, str]) -> AsyncIterator[SteerableCluster]:
    """Run the emulator with those of the settings that are a coordinator's."""
    names = CoordinatorSettings.names()
    options = ClusterOptions(
        settings=CoordinatorSettings.from_texts({name: settings[name] for name in names if name in settings}),
    )
    steerable = SteerableCluster()
    environment = ClusterEnvironment(
        coordinator_factory=partial(GroupCoordinator, choose_leader=steerable.choose_leader)
    )
    async with await BrokerCluster.start(options=options, environment=environment) as cluster:
        host, port = cluster.address
        steerable.address = f"{host}:{port}"
        yield steerable
