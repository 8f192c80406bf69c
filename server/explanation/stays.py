"""The stays of one client in a group: the times during which it was a member, each under another member id."""

from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from regroup.coordinator import events as e
from regroup.coordinator.group import MemberId
from regroup.server.explanation.history import GroupHappening, KnownHistory
from regroup.server.explanation.sentences import Explanation, counted, reason, time_text

MAX_LISTED: Final = 3
"""The most earlier stays that a sentence lists; further ones are only counted."""
_ENDS: Final = {
    e.MemberLeft: "left",
    e.MemberRemoved: "was removed",
    e.StaticMemberReplaced: "was replaced by a new process",
}


class Stay(NamedTuple):
    """The time during which a client was a member under one member id: the id, the first event that contains it, and
    the event that ended the membership (None if it has not ended)."""

    member_id: MemberId
    first: GroupHappening
    ended: GroupHappening | None


def stays_of(history: KnownHistory, member_ids: Collection[MemberId]) -> list[Stay]:
    """The stays of the members with these ids, in the order of their first events."""
    stays: dict[MemberId, Stay] = {}
    for happening in history.happenings:
        event = happening.event
        for member_id in names_in(event) & {*member_ids}:
            stay = stays.setdefault(member_id, Stay(member_id, happening, None))
            ends = isinstance(event, e.MemberLeft | e.MemberRemoved) or (
                isinstance(event, e.StaticMemberReplaced) and event.replaced_member_id == member_id
            )
            stays[member_id] = stay._replace(ended=happening if ends else stay.ended)
    return list(stays.values())


def names_in(event: e.Event) -> set[str]:
    """The member ids that an event contains."""
    return {getattr(event, "member_id", ""), getattr(event, "replaced_member_id", "")} - {""}


def explain_rejoins(history: KnownHistory, stay: Stay, last: GroupHappening) -> Iterator[Explanation]:
    """Explain the JoinGroup requests that a member has sent after `last`, its last event of another kind."""
    rejoins = [
        each
        for each in history.happenings
        if each.position > last.position
        and isinstance(each.event, e.MemberRejoined)
        and each.event.member_id == stay.member_id
    ]
    if rejoins:
        newest = rejoins[-1]
        given = f", with the reason: {newest.event.reason}" if newest.event.reason else ""
        if len(rejoins) == 1:
            text = f"it sent JoinGroup again at {time_text(newest.at_ms)}{given}"
        else:
            times = counted(len(rejoins), "time")
            text = f"it sent JoinGroup again {times} since then, the last one at {time_text(newest.at_ms)}{given}"
        yield Explanation(sentence=text, position=newest.position)


def explain_earlier_stays(history: KnownHistory, stays: Collection[Stay], last: Explanation) -> Iterator[Explanation]:
    """Explain how the earlier memberships of the same client ended, unless the explanation `last` says so already."""
    noted = " ".join((last.sentence, *last.notes))
    earlier = [each for each in stays if history.name_of(each.member_id) not in noted]
    if earlier:
        shown = "; ".join(_stay_text(history, each) for each in earlier[-MAX_LISTED:])
        more = f", the last {MAX_LISTED}" if len(earlier) > MAX_LISTED else ""
        yield reason(f"it had {counted(len(earlier), 'other member id')} before{more}: {shown}")


def _stay_text(history: KnownHistory, stay: Stay) -> str:
    name = history.name_of(stay.member_id).removeprefix("member ")
    since = f"{name}, from {time_text(stay.first.at_ms)}"
    if stay.ended is None:
        return f"{since}, whose end is in no event"
    return f"{since}, which {_ENDS[type(stay.ended.event)]} at {time_text(stay.ended.at_ms)}"
