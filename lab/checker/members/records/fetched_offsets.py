"""Which committed offsets members take as theirs: those that responses to their OffsetFetch had.

fetched = FetchedOffsets()
fetched.on_response("anna", response)                # anna gets committed offsets, or errors
fetched.on_fetched("anna", {partition: None})        # what she takes from it: the violation that this is, or None
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from regroup.lab.checker.members.member_invariants import MemberViolation
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.protocol.messages.offsets import OffsetFetchResponse

TAKES_WHAT_IT_GOT: Final = (
    "A member takes a committed offset, or that there is none, from a response to its OffsetFetch that has no error "
    "for the partition."
)


class FetchedOffsets:
    """By member and partition, the offsets that responses had since the member last took one; -1 for none committed."""

    def __init__(self) -> None:
        self._offsets: dict[str, dict[TopicPartition, set[int]]] = {}

    def on_new_life(self, name: str) -> None:
        """Forget what was known of a member: its process has ended."""
        self._offsets.pop(name, None)

    def on_response(self, name: str, response: Any) -> None:
        """Note the committed offsets in the response to an OffsetFetch."""
        if isinstance(response, OffsetFetchResponse):
            known = self._offsets.setdefault(name, {})
            for partition, offset in _committed_in(response):
                known.setdefault(partition, set()).add(offset)

    def on_fetched(self, name: str, offsets: Mapping[TopicPartition, int | None]) -> MemberViolation | None:
        """Check the committed offsets that a member takes as fetched; None where there is none."""
        known = self._offsets.get(name, {})
        for partition, offset in offsets.items():
            got = known.pop(partition, set[int]())
            if (-1 if offset is None else offset) not in got:
                taken = "no committed offset" if offset is None else f"the committed offset {offset}"
                had = f"responses had {sorted(got)}" if got else "no response had one"
                return MemberViolation(TAKES_WHAT_IT_GOT, f"{name} takes {taken} of {partition}, and {had}")
        return None


def _committed_in(response: OffsetFetchResponse) -> Iterator[tuple[TopicPartition, int]]:
    """The partitions without an error in a response, each with its committed offset, -1 if there is none."""
    topics = [topic for group in response.groups if not group.error_code for topic in group.topics]
    for topic in topics or ([] if response.error_code else response.topics):
        for each in topic.partitions:
            if not each.error_code:
                yield TopicPartition(topic.name, each.partition_index), each.committed_offset
