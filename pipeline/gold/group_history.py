"""One group's history, folded once by the coordinator's own `evolve`, as rows of every table.

    chronicle = Chronicle("payments")
    for record in records:
        rows += chronicle.reads(record)
    rows += chronicle.ends()

Nothing of Spark is in here, so that a plain loop gives the same rows.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from regroup.coordinator.evolve import evolve
from regroup.coordinator.group import Group
from regroup.coordinator.serialization import ILLEGIBLE, damaged, read, read_snapshot
from regroup.pipeline.gold.member_lives import Commits, Lives
from regroup.pipeline.gold.ownership import Holdings
from regroup.pipeline.gold.rebalances import Rebalances
from regroup.pipeline.gold.steps import Steps, state_as_json
from regroup.pipeline.gold.transition import Moment, Row, Watch
from regroup.pipeline.source.columns import SNAPSHOT
from regroup.storage.errors import StoreError
from regroup.storage.records import Record, Snapshot

TOPIC_EVENTS: Final = ("topic-created", "partitions-added", "topic-deleted")
"""Of the cluster; handed to every group of the store, since they say how many partitions there are."""


class TopicEvent(msgspec.Struct):
    """The part of a topic's event that matters here. A topic that was deleted has 0 partitions."""

    name: str
    partitions: int = 0


TOPIC_DECODER: Final = msgspec.json.Decoder(TopicEvent)


class Chronicle:
    """Reads one group's records in order of position, each once."""

    def __init__(self, name: str) -> None:
        self._group = Group(name=name)
        self._holdings = Holdings()
        self._rebalances = Rebalances(self._holdings)
        self._lives = Lives()
        # The rebalances look at the holdings as they were, so they come first.
        self._watches: tuple[Watch, ...] = (self._rebalances, self._holdings, self._lives, Commits(), Steps())
        self._last: Record | None = None
        self._snapshot: Group | None = None
        self._fault = ""

    def reads(self, record: Record) -> Sequence[Row]:
        """The rows that are complete with this record. After one that cannot be folded the rest is passed over."""
        if self._fault:
            return ()
        try:
            return self._rows_of(record)
        except StoreError as error:
            self._fault = f"The event cannot be folded: {error}"
        except ILLEGIBLE as error:
            self._fault = f"The event cannot be folded: {damaged(f'Record {record.position}', error)}"
        return [("faults", {"position": record.position, "sentence": self._fault})]

    def ends(self) -> Iterator[Row]:
        """What is still open, and what the group is in the end."""
        for watch in self._watches:
            yield from watch.ends()
        yield (
            "groups",
            {
                "position": self._last.position if self._last else 0,
                "number": self._group.number,
                "state": self._group.state.value,
                "generation": self._group.generation,
                "members": len(self._group.members),
                "is_whole": not self._fault,
                "json": state_as_json(self._group),
            },
        )

    def _rows_of(self, record: Record) -> list[Row]:
        if record.type in TOPIC_EVENTS:
            topic = TOPIC_DECODER.decode(record.payload)
            return list(self._holdings.topic_has(topic.name, topic.partitions, record.at_ms))
        if record.type == SNAPSHOT:
            self._begin_with(record)
            return []
        return self._happens(record)

    def _begin_with(self, record: Record) -> None:
        assert record.group is not None
        stored = Snapshot(record.group, record.number, record.position, record.reign, record.version, record.payload)
        self._group = self._snapshot = read_snapshot(stored)
        self._last = record

    def _happens(self, record: Record) -> list[Row]:
        """An event may fold, and yet make no sense to those who watch: then it counts as not folded."""
        if self._snapshot is not None:
            self._holdings.begins_with(self._snapshot, record.at_ms)
            self._lives.begins_with(self._snapshot)
            self._snapshot = None
        last, event = self._last, read(record)
        begins = last is None or (last.cause, last.at_ms) != (record.cause, record.at_ms)
        moment = Moment(record, event, self._group, evolve(self._group, event), begins)
        rows = [row for watch in self._watches for row in watch.sees(moment)]
        self._group, self._last = moment.after, record
        return rows
