"""Bugs about what is on disk, and what a coordinator that takes over makes of it."""

from msgspec.structs import replace

from regroup.coordinator.events import CoordinatorLoaded
from regroup.coordinator.evolve import coordinator_loaded
from regroup.coordinator.group import Group
from regroup.coordinator.runtime import group_coordinator
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.coordinator.runtime.pending_responses import Request
from regroup.coordinator.serialization import snapshot
from regroup.lab.planted_bugs.bug import Planted, bug, evolves, instead_of
from regroup.protocol.message import Structure
from regroup.storage.records import Snapshot


@bug
def answer_does_not_wait_for_the_disk() -> Planted:
    """An answer leaves before the events that it rests on are durable."""

    def send(group_coordinator: GroupCoordinator, name: str, request: Request, message: Structure) -> None:
        request.answering(message)

    return instead_of(GroupCoordinator, "_send", send)


@bug
def load_forgets_offsets() -> Planted:
    """A coordinator that takes a group over finds its members, and not its offsets."""

    def loaded(group: Group, event: CoordinatorLoaded) -> Group:
        return replace(coordinator_loaded(group, event), offsets={})

    return evolves(CoordinatorLoaded, loaded)


@bug
def load_begins_at_generation_0() -> Planted:
    """A coordinator that takes a group over counts its generations from the beginning."""

    def loaded(group: Group, event: CoordinatorLoaded) -> Group:
        return replace(coordinator_loaded(group, event), generation=0)

    return evolves(CoordinatorLoaded, loaded)


@bug
def load_remembers_what_was_never_stored() -> Planted:
    """A coordinator that takes over a group goes on where the other was, though no log ever held that."""

    def loaded(group: Group, event: CoordinatorLoaded) -> Group:
        return replace(group, loaded_at_ms=event.at_ms)

    return evolves(CoordinatorLoaded, loaded)


@bug
def snapshot_without_offsets() -> Planted:
    """A snapshot holds a group's members, and not its offsets; whoever loads begins from it."""

    def of_members_alone(group: Group, position: int, reign: int) -> Snapshot:
        return snapshot(replace(group, offsets={}), position, reign)

    return instead_of(group_coordinator, "snapshot", of_members_alone)
