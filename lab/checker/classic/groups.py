"""All classic groups of a run, by the stored events: the violations of single events, and of the product's own fold.

groups = ClassicGroups(settings)
groups.on_stored(record, event)               # the violations of an event that is durable
groups.differences("payments", folded)        # what the product's fold of the same events has otherwise
"""

import msgspec

from regroup.coordinator.events import Event, GenerationStarted, GroupCreated
from regroup.coordinator.group import Group
from regroup.coordinator.settings import CoordinatorSettings
from regroup.lab.checker.classic.events import creation_violations, event_violations
from regroup.lab.checker.classic.stored_group import StoredClassicGroup
from regroup.storage.records import NewRecord


class ClassicGroups:
    """All classic groups of a run, as folded from the stored events without the product's own functions.

    `settings` are those of the broker.
    """

    def __init__(self, settings: CoordinatorSettings) -> None:
        self._settings = settings
        self._groups: dict[str, StoredClassicGroup] = {}
        self.absent_members: set[str] = set()
        """The static members that have not joined the present generation of their group (KIP-345)."""

    def group(self, group_id: str) -> StoredClassicGroup:
        """The group of this id, which may not exist."""
        if (group := self._groups.get(group_id)) is None:
            group = self._groups[group_id] = StoredClassicGroup()
        return group

    def on_stored(self, record: NewRecord, event: Event) -> list[tuple[str, str]]:
        """Check a stored event, that of the record, by Kafka's rules and apply it to its group.

        Returns the sentence of each violated rule with what was found.
        """
        if record.group is None:
            return []
        group = self.group(record.group)
        violations = list(event_violations(group, event, self._settings)) if not group.is_consumer else []
        if isinstance(event, GroupCreated) and record.cause is not None:
            violations += creation_violations(event, msgspec.json.decode(record.cause).get("api", ""))
        if isinstance(event, GenerationStarted):
            joined = group.joined
            self.absent_members.difference_update(joined)
            self.absent_members.update(each for each in group.members if each not in joined)
        group.apply(event, record.event_number)
        return violations

    def with_open_transaction(self, producer_id: int) -> list[str]:
        """The ids of the groups, of either protocol, that have offsets of this producer's open transaction."""
        return [group_id for group_id, group in self._groups.items() if producer_id in group.offsets.transactions]

    def differences(self, folded: Group) -> str:
        """Compare a group that the product has folded from the same events with the group folded here.

        Returns what differs as text; empty if both are the same.
        """
        return ", ".join(self.group(folded.group_id).differences(folded))
