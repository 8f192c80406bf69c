"""The event of a moment: its sentence, its cause, and all of it as JSON."""

import json

import msgspec

from regroup.classroom.languages import Language
from regroup.classroom.phrases.phrase import PhraseValue, in_language, phrase, series
from regroup.classroom.sentences import cause_phrase, continued_sentence, reason_of, sentence_of
from regroup.classroom.timeline import TimelineMoment
from regroup.classroom.wording import MemberNames
from regroup.cli.store.events_text import clock_time, date_of, event_details
from regroup.cli.terminal.text import printable_json, shorten_uuids
from regroup.coordinator import events as e
from regroup.coordinator.serialization import encode_event


def sentence(moment: TimelineMoment, names: MemberNames, language: Language) -> str:
    """The sentence about a moment's event; the event's type and fields if it has no sentence."""
    if text := sentence_of(moment, names, language):
        return text
    if isinstance(moment.event, e.OffsetsCommitted):
        return in_language(_commit(moment.event, names), language)
    if said := continued_sentence(moment, names):
        return in_language(said, language)
    record = encode_event("", moment.event_number, moment.coordinator_epoch, moment.event, None)
    details = shorten_uuids(names.within(event_details(record)))
    because = phrase("because of", reason=reason_of(moment.event, names)) if moment.event.reason else ""
    fields = details or phrase("no further fields")
    return in_language(phrase("event without a sentence", type=moment.type, fields=fields, because=because), language)


def _commit(event: e.OffsetsCommitted, names: MemberNames) -> PhraseValue:
    """A phrase about a commit: `anna committed orders-0 at 122 and orders-1 at 120.`"""
    committed = [
        phrase("reached", partition=f"{topic}-{index}", offset=each.offset)
        for topic, partitions in event.offsets.items()
        for index, each in partitions.items()
    ]
    who = names[event.member_id] if event.member_id else phrase("no member")
    return phrase("step commit", who=who, offsets=series("names", committed) or phrase("no partition"))


def cause_line(moment: TimelineMoment, names: MemberNames, language: Language) -> str:
    """A line about the cause of an event: `JoinGroup of anna came (connection 0-1@1, correlation id 4)`."""
    cause = moment.cause
    if cause is None:
        return in_language(phrase("step not recorded"), language)
    said = cause_phrase(cause)
    if cause.api and cause.connection:
        said = phrase("step cause request", cause=said, connection=cause.connection, id=cause.correlation_id or 0)
    elif cause.member_id:
        said = phrase("step cause member", cause=said, member=names[cause.member_id])
    return in_language(said, language)


def event_json(moment: TimelineMoment) -> str:
    """The event as JSON on several lines, with its position, time and cause; bytes are base64."""
    record = {
        "position": moment.position,
        "event_number": moment.event_number,
        "coordinator_epoch": moment.coordinator_epoch,
        "at": f"{date_of(moment.at_ms)} {clock_time(moment.at_ms)} UTC",
        "type": moment.type,
        "event": msgspec.to_builtins(moment.event),
        "cause": None if moment.cause is None else msgspec.to_builtins(moment.cause),
    }
    return printable_json(json.dumps(record, indent=2, ensure_ascii=False))
