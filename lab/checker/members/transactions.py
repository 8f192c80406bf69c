"""What producers were answered about their transactions, and what became of the offsets in them.

ledger = TransactionLedger()
ledger.begin("transaction 3", "payments")
ledger.asks_to_commit("transaction 3")                       # the producer sends EndTxn
ledger.is_answered("transaction 3", ErrorCode.NONE, committed=True)
ledger.violations_of(before, after)                          # the offsets that a command has committed

The metadata of an offset name its transaction.
"""

from collections.abc import Iterator
from typing import Final

from regroup.coordinator.group import Group
from regroup.lab.checker.offsets.offset_invariants import changed_offsets
from regroup.protocol.errors import ErrorCode

ONLY_COMMITTED: Final = "Offsets of a transaction that is aborted, fenced or timed out are never committed."
COMMIT_TAKES_EFFECT: Final = "A transaction whose commit was acknowledged does not stay open."
TRANSACTION_SENTENCES: Final = (ONLY_COMMITTED, COMMIT_TAKES_EFFECT)
LABEL: Final = "transaction "


class TransactionLedger:
    """The transactions of a run, each by its label, which the metadata of its offsets has.

    It keeps the group of each, whether its producer has asked to commit it, and whether that was confirmed.
    """

    def __init__(self) -> None:
        self._groups: dict[str, str] = {}
        self._asked: set[str] = set()
        """Those whose producer has asked to commit them."""
        self._committed: set[str] = set()
        """Those whose commit was acknowledged."""

    def begin(self, label: str, group_id: str) -> None:
        """Note that a producer begins the transaction `label`, which will have offsets of this group."""
        self._groups[label] = group_id

    def asks_to_commit(self, label: str) -> None:
        """Note that the producer sends EndTxn to commit this transaction: from now on its offsets may be committed."""
        self._asked.add(label)

    def is_answered(self, label: str, code: ErrorCode, *, committed: bool) -> None:
        """Note the error code of the response to EndTxn; `committed` is whether the request was to commit, not to
        abort."""
        if committed and code is ErrorCode.NONE:
            self._committed.add(label)

    def violations_of(self, before: Group, after: Group) -> Iterator[tuple[str, str]]:
        """Yield each offset that a command has committed, though no producer has asked to commit its transaction.

        `before` and `after` are the group before and after the command.
        """
        for (topic, index), (_, now) in changed_offsets(before, after).items():
            if now is not None and now.metadata.startswith(LABEL) and now.metadata not in self._asked:
                yield ONLY_COMMITTED, f"{topic}-{index} has offset {now.offset} of {now.metadata}"

    def still_open(self, groups: dict[str, Group]) -> Iterator[tuple[str, str]]:
        """Yield each transaction whose offsets are still pending at the end of a run, though EndTxn with a commit has
        succeeded."""
        for label in sorted(self._committed):
            group = groups.get(self._groups[label])
            pending = group.pending_transactional_offsets.values() if group is not None else ()
            if any(each.offset.metadata == label for one in pending for rows in one.values() for each in rows.values()):
                yield COMMIT_TAKES_EFFECT, f"{label} of group {self._groups[label]}"
