"""Elements of an SVG document. All text is escaped: names come from clients, and must not become markup."""

from typing import Final
from xml.sax.saxutils import escape, quoteattr

from regroup.classroom.wording import without_control_characters

CHARACTER_WIDTH: Final = 0.58
"""Of an average character of a generic sans-serif font, as a share of its size."""


def text_width(text: str, size: float) -> float:
    """An estimate of a text's width in pixels at this font size; Chinese characters count almost double."""
    return sum(CHARACTER_WIDTH * (1 if ord(each) < 0x2000 else 1.9) for each in text) * size


def xml_text(text: str) -> str:
    """The text escaped for XML: markup as entities, control characters as Python writes them."""
    return escape(without_control_characters(text))


def fitting(texts: tuple[str, ...], width: float, size: float) -> str:
    """The first of these texts that is at most `width` pixels wide; empty if none is."""
    return next((each for each in texts if text_width(each, size) <= width), "")


def shortened(text: str, width: float, size: float) -> str:
    """The text, or if it is wider than `width` pixels, its begin and end with an ellipsis between.

    The end is kept because names of members often differ only there.
    """
    if text_width(text, size) <= width:
        return text
    kept = len(text) - 1
    while kept and text_width(_ends(text, kept), size) > width:
        kept -= 1
    return _ends(text, kept)


def _ends(text: str, kept: int) -> str:
    """The text with all but `kept` characters replaced by an ellipsis in the middle."""
    return f"{text[: (kept + 1) // 2]}…{text[len(text) - kept // 2 :]}"


class SvgCanvas:
    """Collects the elements of an SVG document. Places and sizes are in pixels."""

    def __init__(self) -> None:
        self._elements: list[str] = []

    def rect(
        self, left: float, top: float, right: float, bottom: float, *, css: str, tip: str = "", more: str = ""
    ) -> None:
        place = f'x="{left:.1f}" y="{top:.1f}" width="{max(right - left, 0.5):.1f}" height="{bottom - top:.1f}"'
        self._add("rect", f"{place} class={quoteattr(css)} {more}", f"<title>{xml_text(tip)}</title>" if tip else "")

    def line(self, x1: float, y1: float, x2: float, y2: float, *, css: str) -> None:
        self._add("line", f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class={quoteattr(css)}')

    def text(self, x: float, y: float, text: str, *, css: str = "") -> None:
        if text:
            self._add("text", f'x="{x:.1f}" y="{y:.1f}" class={quoteattr(css or "t")}', xml_text(text))

    def _add(self, name: str, attributes: str, content: str = "") -> None:
        attributes = attributes.strip()
        self._elements.append(f"<{name} {attributes}>{content}</{name}>" if content else f"<{name} {attributes}/>")

    def document(self, width: float, height: float, *, title: str, description: str, style: str, patterns: str) -> str:
        """The whole SVG document with the elements drawn so far."""
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
                f'height="{height:.0f}" role="img" aria-labelledby="title description">',
                f'<title id="title">{xml_text(title)}</title>',
                f'<desc id="description">{xml_text(description)}</desc>',
                f"<style>{style}</style>",
                f"<defs>{patterns}</defs>",
                *self._elements,
                "</svg>",
                "",
            ]
        )
