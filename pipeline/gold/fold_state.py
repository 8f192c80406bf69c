"""What the fold of one group needs to go on after its last event: kept beside the tables, for the next build.

The state is the group's history as an object, with what all builders of tables hold open. Its bytes are Python's own
(pickle), and only classes of the fold are loaded from them.
"""

import hashlib
import io
import pickle
from contextlib import AbstractContextManager, ExitStack
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Final, NamedTuple

import pyarrow as pa

import regroup.coordinator as coordinator
from regroup.pipeline.gold.group_history import GroupHistory
from regroup.pipeline.locations.location import Location
from regroup.pipeline.output_folder import parquet_writer

STATE_FOLDER: Final = "fold_state"
"""The folder of the states of a version of the tables, beside the folders of its tables."""
STATE_TYPE: Final = "fold-state"
"""Event type of a row that precedes a group's new events: the payload is the state after the former ones."""
STATE_SCHEMA: Final = pa.schema([("store", pa.string()), ("group", pa.string()), ("payload", pa.binary())])
STATES_DDL: Final = "store STRING, `group` STRING, payload BINARY"
"""`STATE_SCHEMA` in Spark's DDL."""
STATES_PER_BATCH: Final = 1_000

FOLDED_CODE: Final = ("coordinator", "protocol", "server/recording", "pipeline/gold", "storage/records.py")
"""The code, below the folder of all packages, that decides what a state holds and means, and what tables have of
exchanges."""
STATE_CLASSES: Final = ("regroup.coordinator.", "regroup.protocol.consumer.", "regroup.pipeline.gold.")
OTHER_NAMES: Final = {
    ("collections", "Counter"),
    ("msgspec._utils", "rebuild"),
    ("regroup.storage.records", "Record"),
}


class FoldState(NamedTuple):
    """The state of a group's fold."""

    history: GroupHistory
    position: int
    """Of the last event or snapshot."""
    event_number: int
    topic_position: int
    """Of the last topic event that the history has got."""


class StateUnpickler(pickle.Unpickler):
    """Loads a state. Raises pickle.UnpicklingError for anything but a class of the fold, so bytes cannot run code."""

    def find_class(self, module: str, name: str) -> Any:
        # With a dot a name goes on to an attribute; without one it may be what a module of the fold has imported.
        if "." not in name and self._is_known(module, name):
            found = super().find_class(module, name)
            if (module, name) in OTHER_NAMES or (isinstance(found, type) and found.__module__ == module):
                return found
        raise pickle.UnpicklingError(f"{module}.{name} is no part of the state of a fold")

    @staticmethod
    def _is_known(module: str, name: str) -> bool:
        return (module, name) in OTHER_NAMES or module.startswith(STATE_CLASSES)


def encode_state(state: FoldState) -> bytes:
    return pickle.dumps(tuple(state), protocol=5)


def decode_state(content: bytes) -> FoldState:
    """The state that `encode_state` wrote with the same `state_format`. Raises pickle.UnpicklingError."""
    return FoldState(*StateUnpickler(io.BytesIO(content)).load())


class StateFile(AbstractContextManager["StateFile"]):
    """Writes the states of one task's groups to a file. After an error no file is written."""

    def __init__(self, place: Location) -> None:
        self._place = place
        self._stack = ExitStack()
        self._rows: list[tuple[str, str, bytes]] = []
        self._writer: Any = None

    def add(self, store: str, group: str, state: bytes) -> None:
        self._rows.append((store, group, state))
        if len(self._rows) == STATES_PER_BATCH:
            self._flush()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._stack.__exit__(kind, error, trace)
            return
        with self._stack:
            self._flush()

    def _flush(self) -> None:
        if self._writer is None:
            self._writer = self._stack.enter_context(parquet_writer(self._place, STATE_SCHEMA))
        columns = zip(*self._rows, strict=True) if self._rows else ((), (), ())
        arrays = [pa.array(values, field.type) for values, field in zip(columns, STATE_SCHEMA, strict=True)]
        self._writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=STATE_SCHEMA))
        self._rows = []


@cache
def state_format() -> str:
    """A hash of the code of the fold. A state that other code has written is not used; its groups are folded again."""
    packages = Path(coordinator.__file__).resolve().parents[1]
    digest = hashlib.sha256()
    for part in FOLDED_CODE:
        place = (packages / part).resolve()
        for source in [place] if place.is_file() else sorted(place.rglob("*.py")):
            digest.update(source.relative_to(packages).as_posix().encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()
