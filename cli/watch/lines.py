"""Formats the lines of `regroup watch`: events as `regroup events` shows them, lost connections, and
refused requests.
"""

from typing import Final

from rich.text import Text

from regroup.cli.store.events_text import clock_time, format_event
from regroup.cli.store.topic_names import learn_topics
from regroup.cli.terminal.text import printable, shorten_uuids
from regroup.server.mqtt.messages import ConnectionLossMessage, FeedEvent, RefusalMessage
from regroup.storage.records import Record

EPOCH_ERRORS: Final = ("STALE_MEMBER_EPOCH", "FENCED_MEMBER_EPOCH")
"""Errors that only a request with a member epoch gets; the API itself says so for heartbeats alone."""


def event_line(group: str | None, event: FeedEvent, topics: dict[str, str] | None = None) -> Text:
    """An event as the line that `regroup events` prints for it. `topics` are names by topic id, and get those that the
    event creates. Raises ValueError for a payload that is not an
    event's."""
    payload, cause = bytes(event.payload), bytes(event.cause)
    record = Record(
        group=group,
        event_number=event.event_number,
        coordinator_epoch=event.coordinator_epoch,
        at_ms=event.at_ms,
        type=event.type,
        version=event.version,
        payload=b"{}" if payload == b"null" else payload,
        cause=None if cause == b"null" else cause,
        position=event.position,
    )
    try:
        known = {} if topics is None else topics
        learn_topics(known, (record,))
        line = format_event(record, known)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except (LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"the payload or the cause of a {event.type} is not that of an event") from error
    if event.omitted_payload_bytes:
        line.append(f"  ({event.omitted_payload_bytes} bytes, too large for MQTT; the store has them)")
    return line


def describe_refusal(refusal: RefusalMessage) -> str:
    """Refused requests in one sentence: whose, which, and why."""
    who = refusal.group_instance_id or refusal.client_id or shorten_uuids(refusal.member_id)
    number = "epoch" if refusal.api == "ConsumerGroupHeartbeat" or refusal.error in EPOCH_ERRORS else "generation"
    generation = f", {number} {refusal.generation_id}" if refusal.generation_id is not None else ""
    if refusal.count == 1:
        return f"{refusal.api} was refused: {refusal.error} (to {who}{generation})"
    if not refusal.is_one_kind:
        return f"{refusal.count} further requests of this and other groups were refused"
    return f"{refusal.count} times more {refusal.api} was refused: {refusal.error} (to {', '.join(refusal.clients)})"


def refusal_line(refusal: RefusalMessage) -> Text:
    """A notice of refused requests as a line like that of an event. It has no position, since it is not stored.

    The line begins with the time of the notice, as it stands among the events of this time. If the last of the requests
    was refused earlier, the line says when.
    """
    line = Text(style="dim")
    told_at_ms = max(refusal.published_at_ms, refusal.at_ms)
    line.append(f"     –  {clock_time(told_at_ms)}  ")
    line.append(printable(f"{refusal.group:<16} "), style="default not dim")
    line.append(f"{'refused':<22} ", style="red not dim")
    line.append(printable(describe_refusal(refusal)), style="default not dim")
    if told_at_ms > refusal.at_ms:
        line.append(f"  {'the last ' if refusal.count > 1 else ''}at {clock_time(refusal.at_ms)}")
    return line


def connection_loss_line(loss: ConnectionLossMessage) -> str:
    """A lost connection as a line: whose it was, and when the member is removed."""
    timeout_s = (loss.session_timeout_ms or 0) / 1000
    then = "it is removed at once" if loss.is_removed else f"its session timeout is {timeout_s:.0f} s"
    return printable(f"{loss.group}: the connection of {loss.client_name} ({loss.member_id}) was lost; {then}")
