"""What lies over the screen for a while: a text that scrolls, and the line in which a position is typed."""

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from regroup.cli.terminal.text import printable_lines


class TextDialog(ModalScreen[None]):
    """A window over the screen with a heading and a text that scrolls; any of its closing keys closes it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(key, "dismiss", "close") for key in ("escape", "q", "enter", "e", "x", "question_mark")
    ]
    DEFAULT_CSS = """
    TextDialog { align: center middle; background: ansi_default; }
    TextDialog > VerticalScroll {
        border: round ansi_default; width: 100%; height: 100%; background: ansi_default; padding: 0 1;
        scrollbar-size-vertical: 1; scrollbar-color: ansi_default; scrollbar-background: ansi_default;
        scrollbar-color-hover: ansi_default; scrollbar-color-active: ansi_default;
    }
    TextDialog Static { width: 100%; height: auto; }
    """

    def __init__(self, title: str, text: str, subtitle: str) -> None:
        """Keep the texts. Textual reads `title` as markup, so it must not contain a name that comes from a client."""
        super().__init__()
        self._title, self._text, self._subtitle = title, text, subtitle

    def compose(self) -> ComposeResult:
        with VerticalScroll() as scroll:
            scroll.border_title = self._title
            scroll.border_subtitle = self._subtitle
            yield Static(Text(printable_lines(self._text)), markup=False)


class PlaceDialog(ModalScreen[str | None]):
    """An input line for a place in the history. Its result is the text, or None after escape."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "cancel", "close")]
    DEFAULT_CSS = """
    PlaceDialog { align: left bottom; background: transparent; }
    PlaceDialog > Input, PlaceDialog > Input:focus {
        width: 100%; height: 3; border: round ansi_default; background: ansi_default; color: ansi_default;
    }
    """

    def __init__(self, title: str, hint: str) -> None:
        super().__init__()
        self._title, self._hint = title, hint

    def compose(self) -> ComposeResult:
        entry = Input(placeholder=self._hint, max_length=40)
        entry.border_title = self._title
        yield entry

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip() or None)

    def action_cancel(self) -> None:
        self.dismiss(None)
