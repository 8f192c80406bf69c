"""Text by columns of a terminal, in which a Chinese character takes two."""

from typing import Final

from rich.cells import cell_len, set_cell_size

MORE: Final = "…"


def filled(text: str, width: int) -> str:
    """The text in exactly `width` columns: filled with spaces, or cut, with an ellipsis at the end."""
    return set_cell_size(text if cell_len(text) <= width else f"{set_cell_size(text, width - 1).rstrip()}{MORE}", width)


def without_middle(text: str, width: int) -> str:
    """The text in at most `width` columns: an ellipsis replaces the middle of a longer one.

    So the end stays, which may have the number of a partition.
    """
    if cell_len(text) <= width:
        return text
    end = text[-(width // 2) :]
    while cell_len(end) > width // 2:
        end = end[1:]
    return f"{set_cell_size(text, width - 1 - cell_len(end)).rstrip()}{MORE}{end}"
