"""The event of a moment: its sentence, its cause, and all of it as JSON."""

import json

import msgspec

from regroup.classroom.languages import Language
from regroup.classroom.phrases.phrase import in_language, phrase
from regroup.classroom.sentences import cause_phrase, reason_of, sentence_of
from regroup.classroom.timeline import TimelineMoment
from regroup.classroom.wording import MemberNames
from regroup.cli.store.events_text import clock_time, date_of, event_details
from regroup.cli.terminal.text import printable_json, shorten_uuids
from regroup.coordinator.serialization import encode_event
from regroup.server.explanation.sentences import NOT_RECORDED


def sentence(moment: TimelineMoment, names: MemberNames, language: Language) -> str:
    """The moment's sentence; of an event without one its fields."""
    if text := sentence_of(moment, names, language):
        return text
    record = encode_event("", moment.event_number, moment.coordinator_epoch, moment.event, None)
    details = shorten_uuids(names.within(event_details(record)))
    because = phrase("because of", reason=reason_of(moment.event, names)) if moment.event.reason else ""
    fields = details or phrase("no further fields")
    return in_language(phrase("event without a sentence", type=moment.type, fields=fields, because=because), language)


def cause_line(moment: TimelineMoment, names: MemberNames, language: Language) -> str:
    """`JoinGroup of anna came (connection 0-1@1, correlation id 4)`."""
    cause = moment.cause
    if cause is None:
        return NOT_RECORDED
    text = in_language(cause_phrase(cause), language)
    if cause.api and cause.connection:
        return f"{text} (connection {cause.connection}, correlation id {cause.correlation_id})"
    if cause.member_id:
        return f"{text} ({names[cause.member_id]})"
    return text


def event_json(moment: TimelineMoment) -> str:
    """The event on several lines, with where it stands and what caused it; bytes are base64."""
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
