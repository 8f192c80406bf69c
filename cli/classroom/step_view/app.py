"""The full-screen view: keys, the clock of playing, and one widget that draws the lines of the screen."""

import asyncio
import signal
from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Final

from msgspec.structs import replace
from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.timer import Timer
from textual.widget import Widget

from regroup.classroom.phrases.phrase import PhraseValue
from regroup.classroom.walking import Walk
from regroup.cli.classroom.selection import parse_place
from regroup.cli.classroom.step_view.dialogs import PlaceDialog, TextDialog
from regroup.cli.classroom.step_view.event import event_json
from regroup.cli.classroom.step_view.exchange import exchange_json
from regroup.cli.classroom.step_view.groups import SteppedGroup
from regroup.cli.classroom.step_view.help import help_text
from regroup.cli.classroom.step_view.screen import screen_lines
from regroup.cli.classroom.step_view.shown import Shown

SPEEDS: Final = (0.5, 1, 2, 5, 10, 20, 50)
"""Events a second while it plays."""
FIRST_SPEED: Final = 2
EXIT_TERMINATED: Final = 128 + signal.SIGTERM
"""The exit code that shells give to a command that SIGTERM has ended."""
PAGE: Final = 10
"""Events of one press of page up or page down."""


class Lines(Widget):
    """The widget of the whole screen: draws the view's lines of text again whenever something has changed."""

    DEFAULT_CSS = "Lines { width: 100%; height: 100%; background: ansi_default; color: ansi_default; }"

    def __init__(self, app: "StepApp") -> None:
        super().__init__()
        self._shown_by = app

    def render(self) -> Text:
        lines = screen_lines(self._shown_by.shown, max(20, self.size.width), max(12, self.size.height))
        return Text("\n", no_wrap=True, end="").join(lines)


class StepApp(App[None]):
    """The full-screen view of `regroup step`: shows one of a store's groups at one moment, and handles keys."""

    ENABLE_COMMAND_PALETTE = False
    CSS = "Screen { overflow: hidden; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("right,n,l", "step(1)"),
        Binding("left,p,h", "step(-1)"),
        Binding("pagedown", f"step({PAGE})"),
        Binding("pageup", f"step(-{PAGE})"),
        Binding("home", "first"),
        Binding("end", "last"),
        Binding("g", "jump('next_rebalance')"),
        Binding("G", "jump('previous_rebalance')"),
        Binding("d", "jump('next_deadline')"),
        Binding("D", "jump('previous_deadline')"),
        Binding("m", "message('next_message')"),
        Binding("M", "message('previous_message')"),
        Binding("slash,colon", "ask_place"),
        Binding("o", "commits"),
        Binding("space", "play"),
        Binding("plus,equals_sign", "speed(1)"),
        Binding("minus", "speed(-1)"),
        Binding("tab", "group(1)", priority=True),
        Binding("shift+tab", "group(-1)", priority=True),
        Binding("up", "scroll_lists(-1)"),
        Binding("down", "scroll_lists(1)"),
        Binding("e", "event"),
        Binding("x", "exchange"),
        Binding("question_mark", "help"),
        Binding("q", "quit"),
        Binding("ctrl+c", "quit", priority=True),
    ]

    def __init__(self, groups: Sequence[SteppedGroup], *, group_number: int = 0) -> None:
        super().__init__(ansi_color=True)
        self._groups = groups
        self._group_number = group_number
        self._hides_commits = False
        self._speed = FIRST_SPEED
        self._playing: Timer | None = None
        self._scroll = 0
        self._message = ""

    @property
    def group(self) -> SteppedGroup:
        """The group that is shown."""
        return self._groups[self._group_number]

    @property
    def shown(self) -> Shown:
        """The values that the screen shows now."""
        return replace(
            self.group.shown(hides_commits=self._hides_commits),
            group_number=self._group_number + 1,
            groups=len(self._groups),
            plays=self._playing is not None,
            events_per_second=SPEEDS[self._speed],
            scroll=self._scroll,
            message=self._message,
        )

    def compose(self) -> ComposeResult:
        yield Lines(self)

    def on_mount(self) -> None:
        """Exit on SIGTERM in the regular way, so that the terminal gets its former settings back."""
        if not self.is_headless:
            leave = partial(self.exit, return_code=EXIT_TERMINATED)
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, leave)

    def action_step(self, steps: int) -> None:
        """Go `steps` events forward, or back if negative.

        If a recorded message after an event is shown, one step back goes to this event.
        """
        self._stop()
        steps += self.group.message is not None and steps < 0
        self._go(self._walk.step(self.group.index, steps) if steps else self.group.index)

    def action_first(self) -> None:
        self._stop()
        self._go(self._walk.first())

    def action_last(self) -> None:
        self._stop()
        self._go(self._walk.last())

    def action_jump(self, where: str) -> None:
        """Go to another rebalance or deadline; `where` is a method of `Walk`, such as `next_rebalance`."""
        self._stop()
        found = getattr(self._walk, where)(self.group.index)
        if found is None:
            self._say(f"no {where}")
        else:
            self._go(found)

    def action_message(self, where: str) -> None:
        """Go to another recorded request or response; `where` is `next_message` or `previous_message`."""
        self._stop()
        found = getattr(self._walk, where)(self.group.index, self.group.message)
        if found is not None:
            self._go(self._walk.message(found).moment_index, message=found)
        elif self.shown.has_exchanges:
            self._say(f"no {where}")
        else:
            self._say("none recorded")

    def action_ask_place(self) -> None:
        self._stop()
        self.push_screen(PlaceDialog(self.shown.says("Go to"), self.shown.says("place")), self._go_to_place)

    def action_commits(self) -> None:
        """Switch on or off that steps skip the events about offsets."""
        self._hides_commits = not self._hides_commits
        index = self._walk.nearest(self.group.index) if self._hides_commits else self.group.index
        self._go(index)
        self._say("commits hidden" if self._hides_commits else "all shown")

    def action_play(self) -> None:
        if self._playing is not None:
            self._stop()
            self._go(self.group.index)
        elif self.group.index >= self._walk.last():
            self._say("last event")
        else:
            self._start()

    def action_speed(self, steps: int) -> None:
        self._speed = min(max(0, self._speed + steps), len(SPEEDS) - 1)
        if self._playing is not None:
            self._stop()
            self._start()
        self._say("speed", speed=f"{SPEEDS[self._speed]:g}")

    def action_group(self, steps: int) -> None:
        """Show another group, `steps` further in the list, at the same position of the store."""
        if len(self.screen_stack) > 1:
            return
        if len(self._groups) == 1:
            self._say("no other group")
            return
        self._stop()
        position = self.group.moment.position
        self._group_number = (self._group_number + steps) % len(self._groups)
        self._go(self.group.index_at(position))

    def action_scroll_lists(self, rows: int) -> None:
        view, sessions = self.shown.view, self.shown.sessions.deadlines
        most = max(len(view.members), len(view.partitions), 3 * len(view.clocks) + len(sessions) + 1)
        self._scroll = min(max(0, self._scroll + rows), most)
        self._draw()

    def action_event(self) -> None:
        self._stop()
        moment = self.group.moment
        self.push_screen(
            TextDialog(
                self.shown.says("Event at", position=moment.position), event_json(moment), self.shown.says("closes")
            )
        )

    def action_exchange(self) -> None:
        self._stop()
        shown = self.shown
        if shown.exchange is None:
            self._say("no exchange")
        else:
            self.push_screen(
                TextDialog(shown.says("Exchange"), exchange_json(shown.exchange, shown.messages), shown.says("closes"))
            )

    def action_help(self) -> None:
        self._stop()
        self.push_screen(TextDialog(self.shown.says("Keys"), help_text(self.shown.language), self.shown.says("closes")))

    @property
    def _walk(self) -> Walk:
        return self.group.walk(hides_commits=self._hides_commits)

    def _go_to_place(self, text: str | None) -> None:
        if text is None:
            return
        timeline = self.group.timeline
        try:
            place = parse_place(text.removeprefix("#").removeprefix("event-"))
        except ValueError:
            self._say("no place", text=repr(text))
            return
        index = self.group.index_of_place(place)
        first, last = timeline.moments[0].position, timeline.last.position
        self._go(index)
        if place.position is not None and not first <= place.position <= last:
            self._say("positions", first=first, last=last)

    def _go(self, index: int, message: int | None = None) -> None:
        """Show the moment with this index, or a recorded message after it, and clear the note in the last line."""
        self.group.index, self.group.message, self._scroll, self._message = index, message, 0, ""
        self._draw()

    def _say(self, key: str, **values: PhraseValue) -> None:
        self._message = self.shown.says(f"says {key}", **values)
        self._draw()

    def _draw(self) -> None:
        self.query_one(Lines).refresh()

    def _start(self) -> None:
        self._message = ""
        self._playing = self.set_interval(1 / SPEEDS[self._speed], self._play_on)
        self._draw()

    def _stop(self) -> None:
        if self._playing is not None:
            self._playing.stop()
            self._playing = None

    def _play_on(self) -> None:
        self._go(self._walk.step(self.group.index))
        if self.group.index >= self._walk.last():
            self._stop()
            self._draw()
