"""The groups of a store, with what the view needs of each: its moments, its ways through them, its exchanges."""

from bisect import bisect_right

from regroup.classroom.incidents import incidents_of
from regroup.classroom.languages import Language
from regroup.classroom.moment_view import MomentViews
from regroup.classroom.recorded.session_clocks import SessionClocks
from regroup.classroom.timeline import GroupTimeline, TimelineMoment
from regroup.classroom.walking import Walk
from regroup.cli.classroom.selection import Place, last_up_to
from regroup.cli.classroom.step_view.messages import MessageReader
from regroup.cli.classroom.step_view.scrubber import Scrubber
from regroup.cli.classroom.step_view.shown import Shown


class SteppedGroup:
    """One group of the store, and the moment (or recorded message) at which the view stands in it."""

    def __init__(
        self,
        timeline: GroupTimeline,
        read_messages: MessageReader | None = None,
        language: Language = Language.ENGLISH,
    ) -> None:
        self.timeline = timeline
        self._language = language
        self.index = 0
        self.message: int | None = None
        """The number of the recorded message at which the view stands, behind the moment; None at the moment itself."""
        self._views = MomentViews(timeline)
        self._scrubber = Scrubber(timeline)
        self._most_members = max(len(moment.members) for moment in timeline.moments)
        self._exchanges = {position: each for each in timeline.exchanges for position in each.events}
        self._sessions = SessionClocks(timeline)
        self._read_messages = read_messages
        self._incidents = tuple(incidents_of(timeline))
        self._walks: dict[bool, Walk] = {}

    @property
    def moment(self) -> TimelineMoment:
        return self.timeline.moments[self.index]

    @property
    def first_position(self) -> int:
        return self.timeline.moments[0].position

    def walk(self, *, hides_commits: bool) -> Walk:
        """The steps through the group's moments; with `hides_commits` they skip events about offsets."""
        if hides_commits not in self._walks:
            self._walks[hides_commits] = Walk(self.timeline, with_commits=not hides_commits)
        return self._walks[hides_commits]

    def index_of_place(self, place: Place) -> int:
        """The index of the last moment at or before a place; 0 if there is none."""
        return self.index_at(last_up_to(place, self.timeline))

    def index_at(self, position: int) -> int:
        """The index of the last moment at or before a position; 0 if there is none."""
        return max(0, bisect_right(self.timeline.moments, position, key=lambda moment: moment.position) - 1)

    def shown(self, *, hides_commits: bool = False) -> Shown:
        """What the screen shows of this group now; settings of the view have their first values."""
        walk = self.walk(hides_commits=hides_commits)
        stop = None if self.message is None else walk.message(self.message)
        view = self._views.at(self.index, stop.at_ms if stop else None)
        exchange = stop.exchange if stop else self._exchanges.get(view.moment.position)
        return Shown(
            timeline=self.timeline,
            view=view,
            language=self._language,
            scrubber=self._scrubber,
            walk=walk,
            stop=stop,
            hides_commits=hides_commits,
            most_members=self._most_members,
            exchange=exchange,
            messages=self._read_messages(exchange) if exchange and self._read_messages else None,
            incidents=self._incidents,
            sessions=self._sessions.at(view.moment.position, view.at_ms),
        )
