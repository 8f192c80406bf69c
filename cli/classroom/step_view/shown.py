"""What the screen shows at one time, as values: everything that the drawing of it needs."""

from bisect import bisect_left

import msgspec

from regroup.classroom.incidents import Incident
from regroup.classroom.languages import Language
from regroup.classroom.moment_view import MomentView
from regroup.classroom.phrases.phrase import PhraseValue, in_language, phrase
from regroup.classroom.recorded.messages import ExchangeMessages
from regroup.classroom.recorded.session_clocks import SessionsAtMoment
from regroup.classroom.recorded_values import TimelineExchange
from regroup.classroom.timeline import GroupTimeline
from regroup.classroom.walking import MessageStop, Walk
from regroup.classroom.wording import MemberNames
from regroup.cli.classroom.step_view.scrubber import Scrubber


class Shown(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the screen shows at one time: a moment of one group, and the settings of the view."""

    timeline: GroupTimeline
    view: MomentView
    language: Language = Language.ENGLISH
    """Of the sentences and headings; fields of messages and JSON have their own names."""
    scrubber: Scrubber
    walk: Walk
    most_members: int = 0
    """The most members that the group has at any time: the parts of the screen stay where they are while it steps."""
    group_number: int = 1
    """Its number among the groups of the store, from 1."""
    groups: int = 1
    stop: MessageStop | None = None
    """The recorded message behind the event at which the view stands; None at the event itself."""
    exchange: TimelineExchange | None = None
    """The exchange of that message, or the one that led to the event, if it was recorded."""
    messages: ExchangeMessages | None = None
    """Its request and response; None without an exchange, and if the store could not be read."""
    incidents: tuple[Incident, ...] = ()
    """The requests of the whole history that went wrong, in the order of their begin."""
    sessions: SessionsAtMoment = SessionsAtMoment((), ())
    hides_commits: bool = False
    plays: bool = False
    events_per_second: float = 1
    scroll: int = 0
    """How far the lists of members and partitions were moved by hand."""
    message: str = ""
    """Shown in place of the keys until the next one."""

    def says(self, key: str, **values: PhraseValue) -> str:
        """The text of the catalogue `STEP_VIEW` with this key, in the language of the view."""
        return in_language(phrase(f"step {key}", **values), self.language)

    @property
    def has_exchanges(self) -> bool:
        """Whether the store has recorded exchanges."""
        return self.timeline.recorded.exchanges

    def incidents_after(self, index: int) -> tuple[Incident, ...]:
        """The incidents between the event with this index and the next one.

        The first event also gets those before it, and the last event those after it.
        """
        moments = self.timeline.moments
        first = bisect_left(self.incidents, moments[index].at_ms, key=_at_ms) if index else 0
        is_last = index + 1 == len(moments)
        last = len(self.incidents) if is_last else bisect_left(self.incidents, moments[index + 1].at_ms, key=_at_ms)
        return self.incidents[first:last]

    @property
    def names(self) -> MemberNames:
        return MemberNames(self.timeline.names_of_ids)


def _at_ms(incident: Incident) -> int:
    return incident.at_ms
