"""Compares the groups that the stored records add up to with those of the coordinators, and with the lab's own folds.

comparison = GroupComparison(state, violations)
comparison.on_group_change("payments", coordinator)      # the coordinator whose group is compared from now on
comparison.compare("payments")                           # when records of the group have been stored
"""

from collections.abc import Iterable, Iterator
from typing import Final

from regroup.coordinator.consumer_group import ConsumerGroupState
from regroup.coordinator.group import Group, GroupState
from regroup.coordinator.invariants import invariant_sentence
from regroup.coordinator.runtime.group_coordinator import GroupCoordinator
from regroup.lab.checker.coordinator_state import CheckerState
from regroup.lab.checker.store.store_invariants import (
    both_classic_folds_agree,
    both_folds_agree,
    the_shadow_group_equals_the_live_group,
)
from regroup.lab.checker.violations import ViolationLog
from regroup.storage.records import Record

FULL_REPLAY: Final = "A full replay of the store gives the same groups as the records one by one."


class GroupComparison:
    """Compares the groups of one run in all places where they are kept. A difference goes to `violations`."""

    def __init__(self, state: CheckerState, violations: ViolationLog) -> None:
        self._state, self._violations = state, violations
        self._coordinators: dict[str, GroupCoordinator] = {}
        """By group id, the coordinator that handled the last command which changed the group."""
        self._crashed: dict[int, GroupCoordinator] = {}
        """Coordinators whose process has crashed, by their `id()`: they are not compared with the store any more."""
        self._compared: dict[str, tuple[GroupState | ConsumerGroupState, int]] = {}
        """By group id, the state and generation in which the group was last compared with its shadow in full."""

    def on_group_change(self, group_id: str, coordinator: GroupCoordinator) -> None:
        """Note that a coordinator has changed this group: its group is compared from now on."""
        self._coordinators[group_id] = coordinator

    def on_crash(self, coordinator: GroupCoordinator) -> None:
        """Note that the process of a coordinator has crashed: its groups are not compared any more."""
        self._crashed[id(coordinator)] = coordinator

    def has_crashed(self, coordinator: GroupCoordinator) -> bool:
        """Whether the process of this coordinator has crashed."""
        return id(coordinator) in self._crashed

    def compare(self, group_id: str) -> None:
        """Compare a group whose records have been stored with the lab's fold of a classic group, and with its
        coordinator's.

        The event numbers are always compared with the coordinator's, all fields only in a new state or generation.
        """
        if detail := both_classic_folds_agree(self._state.shadow.group(group_id), self._state):
            self._violations.report(invariant_sentence(both_classic_folds_agree), detail, self._state.shadow.position)
        coordinator = self._coordinators.get(group_id)
        if coordinator is None or not self._is_running(coordinator):
            return
        live = coordinator.group(group_id)
        consumer = live.consumer
        phase = (live.state, live.generation_id) if consumer is None else (consumer.state, consumer.group_epoch)
        if live.event_number == self._state.shadow.group(group_id).event_number:
            if self._compared.get(group_id) == phase:
                return
            self._compared[group_id] = phase
        self._compare_with_coordinator(live, coordinator)

    def compare_consumer_fold(self, group_id: str) -> None:
        """Compare a stored group of the consumer protocol with the one that the lab folds itself."""
        if detail := both_folds_agree(self._state.shadow.group(group_id), self._state):
            self._violations.report(invariant_sentence(both_folds_agree), detail, self._state.shadow.position)

    def compare_at_end(self) -> Iterator[Group]:
        """Compare every group of a running coordinator in all fields; yields the coordinator's group after each."""
        for group_id, coordinator in self._coordinators.items():
            if self._is_running(coordinator):
                group = coordinator.group(group_id)
                self._compare_with_coordinator(group, coordinator)
                yield group

    def compare_full_replay(self, records: Iterable[Record]) -> None:
        """Evolve every group again from all records of the store, and compare it with the one evolved step by step."""
        for group_id in self._state.shadow.differing_groups(records):
            self._violations.report(FULL_REPLAY, f"group {group_id}", self._state.shadow.position)

    def _is_running(self, coordinator: GroupCoordinator) -> bool:
        return coordinator.is_ready and not self.has_crashed(coordinator)

    def _compare_with_coordinator(self, live: Group, coordinator: GroupCoordinator) -> None:
        stored = self._state.shadow.group(live.group_id)
        is_all_durable = coordinator.journal.last_position <= self._state.shadow.position
        invariant = the_shadow_group_equals_the_live_group
        if detail := invariant(live, stored, is_all_durable):
            raw = f"live {live}, stored {stored}"
            self._violations.report(invariant_sentence(invariant), detail, self._state.shadow.position, raw)
