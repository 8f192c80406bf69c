"""Which tests a process gets next, when several processes run them."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import pytest
from xdist.scheduler import LoadGroupScheduling

LARGE_FILE: Final = 10
"""A file of so many tests is handed out as one unit, which takes less time than handing out each of its tests."""


class LargeFilesAsUnits(LoadGroupScheduling):
    """Hands out whole groups, whole large files, and single tests of small files, in the order of collection."""

    def __init__(self, config: pytest.Config, log: Any = None) -> None:
        super().__init__(config, log)
        config.option.loadscopereorder = False  # else the units with the most tests come first, and not the longest
        self._tests_of_file: Counter[str] = Counter()

    def add_node_collection(self, node: Any, collection: Sequence[str]) -> None:
        self._tests_of_file = Counter(map(file_of, collection))
        super().add_node_collection(node, collection)

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Forget a unit at its end: the scheduler counts the pending tests of all units after every test."""
        units, unit = self.assigned_work[node], self._split_scope(self.registered_collections[node][item_index])
        if unit not in units:  # a test with subtests is reported several times
            return
        super().mark_test_complete(node, item_index, duration)
        if all(units[unit].values()):
            del units[unit]

    def _split_scope(self, nodeid: str) -> str:
        scope, file = super()._split_scope(nodeid), file_of(nodeid)
        return file if scope == nodeid and self._tests_of_file[file] >= LARGE_FILE else scope


def file_of(nodeid: str) -> str:
    return nodeid.partition("::")[0]
