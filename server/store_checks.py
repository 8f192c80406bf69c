"""Checks of a store before brokers start with it, or continue with it after a failure."""

from collections.abc import Iterable

from regroup.coordinator.runtime.logger import get_logger
from regroup.storage.errors import StoreDamaged, StoreLost
from regroup.storage.records import Head

LARGEST_USUAL_TIME_GAP_MS = 365 * 24 * 3600 * 1000
"""If the machine's clock is further than this, in milliseconds, from the time of the last event, the brokers log a
warning when they start."""


def check_reopened_position(last: int, *, acknowledged: int) -> None:
    """Raise StoreLost if the reopened store lacks events that were durable before: `last` is the position of its last
    event, `acknowledged` that of the last event that the store had confirmed as written."""
    if last < acknowledged:
        raise StoreLost(
            f"The store ends at position {last}, and events up to {acknowledged} were acknowledged: put the whole "
            "store back, or end this process and begin with what is left."
        )


def check_reopened_cluster(cluster_id: str, *, expected: str) -> None:
    """Raise StoreLost if the reopened store has another cluster id than `expected`, and so is another store."""
    if cluster_id != expected:
        raise StoreLost(
            f"The store is now that of another cluster, {cluster_id}: put the one of cluster {expected} back, or end "
            "this process."
        )


def check_new_epoch(coordinator_epoch: int, heads: Iterable[Head]) -> None:
    """Raise StoreDamaged if a record has this new coordinator epoch, or a later one, already: the store would refuse
    all new records."""
    newest = max((head.coordinator_epoch for head in heads), default=0)
    if coordinator_epoch <= newest:
        raise StoreDamaged(
            f"The store is damaged: its counter leads to coordinator epoch {coordinator_epoch}, and a record has epoch "
            f"{newest}. Restore the store from a copy."
        )


def warn_of_time_gap(gap_ms: int) -> None:
    """Log a warning if this machine's clock is far later (a positive gap) or earlier than the time of the last
    event."""
    if abs(gap_ms) <= LARGEST_USUAL_TIME_GAP_MS:
        return
    days = abs(gap_ms) // (24 * 3600 * 1000)
    if gap_ms > 0:
        text = "if the clock is wrong, stop now: in minutes the offsets of groups without members expire"
    else:
        text = "time goes on from the last event, since it never goes backwards in a store"
    get_logger("broker-cluster").warning(
        "clock-is-later-than-the-store" if gap_ms > 0 else "clock-is-earlier-than-the-store", days=days, hint=text
    )
