"""Explains events of offsets: why they were deleted, and how transactions with offsets ended."""

from regroup.coordinator import events as e
from regroup.server.cluster.events import ProducerInitialized, TransactionPrepared
from regroup.server.explanation.causes import cause_of, cause_text
from regroup.server.explanation.history import ClusterHappening, GroupHappening, KnownHistory
from regroup.server.explanation.sentences import NOT_RECORDED, Explanation, duration_text, listed, reason, time_text


def explain_deleted_offsets(history: KnownHistory, happening: GroupHappening, event: e.OffsetsDeleted) -> Explanation:
    partitions = listed(f"{topic}-{index}" for topic, indexes in event.partitions.items() for index in indexes)
    cause = happening.cause
    if cause.deadline == "retention":
        because = reason("their retention time had passed", *_empty_since(history, happening))
    elif "was deleted" in event.reason:
        because = reason(f"{event.reason} ({cause_text(cause)})")
    elif cause.test:
        because = reason(cause_text(cause))
    else:
        because = cause_of(history, happening)
    return Explanation(
        sentence=f"the offsets of {partitions} were deleted at {time_text(happening.at_ms)}",
        position=happening.position,
        because=(because,),
    )


def _empty_since(history: KnownHistory, happening: GroupHappening) -> tuple[Explanation, ...]:
    index = history.last_before(history.happenings.index(happening), e.GroupEmptied)
    if index is not None:
        since = history.happenings[index]
        passed = duration_text(happening.at_ms - since.at_ms)
        return (reason(f"the group had been without members since {time_text(since.at_ms)}, for {passed}"),)
    commit = history.last_before(history.happenings.index(happening), e.OffsetsCommitted)
    if commit is None:
        return (reason(f"of a commit that is {NOT_RECORDED}"),)
    since = history.happenings[commit]
    return (reason(f"the last commit was {duration_text(happening.at_ms - since.at_ms)} ago"),)


def explain_transaction_end(history: KnownHistory, happening: GroupHappening, event: e.TransactionEnded) -> Explanation:
    ended = "committed" if event.committed else "dropped"
    return Explanation(
        sentence=f"the pending offsets of producer {event.producer_id} were {ended} at {time_text(happening.at_ms)}",
        position=happening.position,
        because=(_outcome(history, happening, event),),
    )


def _outcome(history: KnownHistory, happening: GroupHappening, event: e.TransactionEnded) -> Explanation:
    """Explain why the transaction was committed or aborted, from the stored cluster event that made its outcome
    final."""
    decided = _prepared(history, happening, event.producer_id)
    what = "was committed" if event.committed else "was aborted"
    if decided is None or not isinstance(decided.event, TransactionPrepared):
        return reason(f"its transaction {what}", reason(cause_text(happening.cause)))
    prepared, cause = decided.event, decided.cause
    text = f"transaction {prepared.transactional_id} {what} at {time_text(decided.at_ms)}"
    if cause.deadline == "transaction":
        why = reason(prepared.reason or cause_text(cause))
    elif cause.api == "InitProducerId":
        why = reason(f"a new producer with this transactional id began, which fences this one ({cause_text(cause)})")
    else:
        why = reason(cause_text(cause))
    notes = ["its producer is fenced"] if prepared.fences_producer else []
    return Explanation(sentence=text, position=decided.position, because=(why,), notes=tuple(notes))


def _prepared(history: KnownHistory, happening: GroupHappening, producer_id: int) -> ClusterHappening | None:
    names = {
        each.event.transactional_id
        for each in history.cluster
        if isinstance(each.event, ProducerInitialized) and each.event.producer_id == producer_id
    }
    for each in reversed(history.cluster):
        is_earlier = each.position < happening.position
        if is_earlier and isinstance(each.event, TransactionPrepared) and each.event.transactional_id in names:
            return each
    return None
