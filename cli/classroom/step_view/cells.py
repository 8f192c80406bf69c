"""Text by columns of a terminal, in which a Chinese character takes two. Control characters are escaped."""

from collections.abc import Sequence
from typing import Final, TypeVar

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from regroup.classroom.languages import Language
from regroup.classroom.phrases.phrase import in_language, phrase
from regroup.cli.terminal.text import printable

MORE: Final = "…"


def fit(text: str, width: int) -> str:
    """The text in exactly `width` columns: filled with spaces, or cut, with an ellipsis at the end."""
    text = printable(text)
    if cell_len(text) <= width:
        return set_cell_size(text, width)
    return set_cell_size(set_cell_size(text, width - 1).rstrip() + MORE, width) if width > 0 else ""


def wrap(text: str, width: int, most: int) -> list[str]:
    """Wrap a text to at most `most` lines of at most `width` columns; an ellipsis shows that the text goes on."""
    lines = [""]
    for word in printable(text).split():
        while cell_len(word) > width:
            room = width - cell_len(lines[-1]) - bool(lines[-1])
            if room < 1:
                lines.append("")
                continue
            head = _head(word, room)
            lines[-1] = f"{lines[-1]} {head}".lstrip() if head else lines[-1]
            word = word[len(head) :]
            lines.append("")
        longer = f"{lines[-1]} {word}".lstrip()
        if cell_len(longer) <= width:
            lines[-1] = longer
        else:
            lines.append(word)
        if len(lines) > most:
            break
    lines = [line for line in lines if line]
    if len(lines) > most:
        last = lines[most - 1]
        lines[most - 1] = f"{last}{MORE}" if cell_len(last) < width else fit(f"{last} {MORE}", width)
    return lines[:most]


def _head(word: str, columns: int) -> str:
    """The first characters of a word that fit into `columns` columns, but at least one character."""
    head = ""
    for each in word:
        if head and cell_len(head + each) > columns:
            break
        head += each
    return head


def rule(title: str, width: int, note: str = "") -> Text:
    """A heading with a line behind it, `width` columns wide: `── State ─────────── note`."""
    title = fit(title, min(cell_len(printable(title)), max(8, width - 4)))
    note_room = width - cell_len(title) - 6
    note = f" {fit(note, min(cell_len(printable(note)), note_room))}" if note and note_room > 3 else ""
    line = Text("── ", style="dim")
    line.append(title, style="bold not dim")
    line.append(f" {'─' * max(0, width - cell_len(title) - cell_len(note) - 4)}")
    line.append(note, style="not dim")
    return line


def filled(lines: Sequence[Text], width: int, height: int) -> list[Text]:
    """The lines cut or filled to exactly `height` lines of exactly `width` columns."""
    shown = [each.copy() for each in lines[:height]]
    shown += [Text() for _ in range(height - len(shown))]
    for line in shown:
        line.truncate(width, overflow="ellipsis", pad=True)
    return shown


def beside(left: Sequence[Text], right: Sequence[Text]) -> list[Text]:
    """Join two blocks with the same number of lines, line by line, with a space between."""
    return [Text.assemble(one, " ", other) for one, other in zip(left, right, strict=True)]


Row = TypeVar("Row")


def window(rows: Sequence[Row], height: int, first: int, language: Language) -> tuple[Sequence[Row], list[Text]]:
    """The rows from `first` on that fit into `height` lines, and a line that counts those above and below.

    If all rows fit, there is no such line.
    """
    if len(rows) <= height:
        return rows, []
    room = max(1, height - 1)
    first = min(max(0, first), len(rows) - room)
    below = len(rows) - room - first
    said = phrase("step above and below", above=first, below=below) if first else phrase("step below", below=below)
    where = in_language(said, language)
    return rows[first : first + room], [Text(f"   {where}: ↑ ↓", style="dim")]
