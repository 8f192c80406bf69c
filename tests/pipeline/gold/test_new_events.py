"""Histories that are folded in several builds, cut anywhere, give the rows of one build. No test needs Spark."""

import pickle
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from regroup.lab.search.swarm import draw_plan
from regroup.lab.simulation.run import play
from regroup.pipeline.gold.fold_state import STATE_TYPE, FoldState, decode_state, encode_state
from regroup.pipeline.gold.folding import GroupFold
from regroup.pipeline.gold.group_history import TOPIC_EVENT_TYPES
from regroup.pipeline.gold.table_files import RowBatches
from regroup.storage.records import Record
from tests.lab.classic_plans import draw_classic_plan
from tests.pipeline.gold.test_recount import with_late_and_transactional_commits
from tests.pipeline.histories import GROUP_ID, TableRow, crash_history

CUTS = 3


def with_damage(records: Sequence[Record]) -> list[Record]:
    """The records, with an invalid payload in the middle of the group's history."""
    of_group = [number for number, record in enumerate(records) if record.group == GROUP_ID]
    place = of_group[len(of_group) // 2]
    return [*records[:place], replace(records[place], payload=b"{}"), *records[place + 1 :]]


HISTORIES: dict[str, Callable[[], Sequence[Record]]] = {
    **{f"classic-{seed}": lambda seed=seed: play(draw_classic_plan(seed)).records for seed in range(40, 52)},
    **{f"drawn-{seed}": lambda seed=seed: play(draw_plan(seed)).records for seed in range(1, 13)},
    "commits": lambda: with_late_and_transactional_commits(crash_history("range", 5)),
    "damage": lambda: with_damage(crash_history("cooperative-sticky", 5)),
}


class Builds:
    """The tables of one group in a row of builds, as the tasks of Spark write them."""

    def __init__(self) -> None:
        self._complete: list[TableRow] = []
        self._state: bytes | None = None
        self._topics: list[Record] = []

    def build(self, group: str, records: Sequence[Record]) -> list[TableRow]:
        """Fold these records, which follow those of the build before, and return all rows of the tables."""
        self._topics += [each for each in records if each.group is None and each.type in TOPIC_EVENT_TYPES]
        of_group = [each for each in records if each.group == group]
        if self._state is not None:
            of_group.insert(0, Record(group, 0, 0, 0, STATE_TYPE, 0, self._state, None, 0))
        if not of_group:
            return []
        batches = RowBatches(self._writer(self._complete))
        fold = GroupFold("store", group, self._topics, batches)
        for record in of_group:
            fold.on_record(record)
        state = fold.state()
        batches.flush()
        self._state = encode_state(state)
        return [*self._complete, *self._incomplete(state)]

    def _incomplete(self, state: FoldState) -> list[TableRow]:
        found: list[TableRow] = []
        batches = RowBatches(self._writer(found))
        state.history.on_end(batches.folded)
        batches.end_rows("store", "group")
        batches.flush()
        return found

    @staticmethod
    def _writer(rows: list[TableRow]) -> Callable[[str, pa.RecordBatch], object]:
        return lambda name, batch: rows.extend(
            (name, row) for row in batch.drop_columns(["store", "group"]).to_pylist()
        )


def in_no_order(rows: Sequence[TableRow]) -> list[str]:
    return sorted(map(repr, rows))


@pytest.mark.quick("classic-40", "drawn-1", "commits", "damage")
@pytest.mark.parametrize("name", HISTORIES)
def test_builds_after_any_cuts_have_the_rows_of_one_build(name: str) -> None:
    records = HISTORIES[name]()
    for group in dict.fromkeys(each.group for each in records if each.group is not None):
        expected, draw = in_no_order(Builds().build(group, records)), Random(name)
        for _ in range(CUTS):
            cuts = sorted(draw.sample(range(1, len(records)), min(4, len(records) - 1)))
            builds, rows = Builds(), []
            for start, end in zip([0, *cuts], [*cuts, len(records)], strict=True):
                rows = builds.build(group, records[start:end])
            assert in_no_order(rows) == expected, cuts


def test_a_build_between_has_the_rows_of_the_events_so_far() -> None:
    records = crash_history("range", 6)
    builds = Builds()
    for cut in range(0, len(records), 25):
        rows = builds.build(GROUP_ID, records[cut : cut + 25])
        assert in_no_order(rows) == in_no_order(Builds().build(GROUP_ID, records[: cut + 25]))


class Foreign:
    def __reduce__(self) -> Any:
        return print, ("this ran",)


@pytest.mark.parametrize("content", [Foreign(), play, Record])
def test_a_state_with_anything_but_parts_of_a_fold_is_refused(content: Any, capsys: pytest.CaptureFixture[str]) -> None:
    if content is Record:
        assert decode_state(pickle.dumps((content, 1, 2, 3))).history is Record
        return
    with pytest.raises(pickle.UnpicklingError, match="is no part of the state of a fold"):
        decode_state(pickle.dumps((content, 1, 2, 3)))
    assert capsys.readouterr().out == ""


def pickled_name(module: str, name: str) -> bytes:
    """The bytes of a pickle that is what a module has under a name, which `pickle.dumps` would name otherwise."""
    texts = [pickle.SHORT_BINUNICODE + bytes([len(each)]) + each.encode() for each in (module, name)]
    return b"".join([pickle.PROTO, bytes([4]), *texts, pickle.STACK_GLOBAL, pickle.STOP])


@pytest.mark.parametrize("name", ["pickle.Unpickler", "Path", "FoldState.mro", "hashlib"])
def test_a_state_with_what_a_module_of_the_fold_has_imported_is_refused(name: str) -> None:
    with pytest.raises(pickle.UnpicklingError, match=f"{name} is no part of the state of a fold"):
        decode_state(pickled_name("regroup.pipeline.gold.fold_state", name))
