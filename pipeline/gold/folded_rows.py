"""The rows that folds have completed and that are not written yet, by table."""

from collections.abc import Sequence, Sized
from typing import Any, TypeAlias

from regroup.pipeline.gold.commit_rows import CommitRows
from regroup.pipeline.gold.tables import TABLES

TableRow: TypeAlias = dict[str, Any] | tuple[Any, ...]
"""A row without `store` and `group`: the values that are not null by column, or those of all columns in order.

Tables with many rows have tuples, which cost less.
"""


class FoldedRows:
    """Rows by table, in lists to which the builders of tables append."""

    def __init__(self) -> None:
        self.by_table: dict[str, list[TableRow]] = {name: [] for name in (*TABLES, "violations") if name != "commits"}
        self.commits = CommitRows()
        self.gaps, self.ownership = self.by_table["gaps"], self.by_table["ownership"]
        self.transitions = self.by_table["transitions"]
        self.tables = (*self.by_table, "commits")
        self._counted: tuple[Sized, ...] = (*self.by_table.values(), self.commits.partitions)

    def add(self, table: str, row: TableRow) -> None:
        self.by_table[table].append(row)

    def counts(self) -> Sequence[int]:
        """The number of rows of each of `tables` so far; `cut` takes it back to them."""
        return [*map(len, self._counted)]

    def cut(self, counts: Sequence[int]) -> None:
        """Remove the rows that were added since `counts` returned these numbers."""
        for rows, count in zip(self.by_table.values(), counts, strict=False):
            del rows[count:]
        self.commits.cut(counts[-1])
