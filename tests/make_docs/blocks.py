"""The parts of a Markdown file that commands write.

<!-- run -->               before a fenced block: its lines that begin with `$ ` are run, and what they print is
                           written below them
<!-- run: slow head=20 --> with options: see BlockOptions
<!-- made: NAME -->        up to `<!-- end of NAME -->`: written by the function of this name in `tables.py`
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
DOCUMENTS = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))

_BLOCK = re.compile(r"<!-- run(?:: (?P<options>.*?))? -->\n```(?P<language>\w*)\n(?P<content>.*?)```\n", re.DOTALL)
_MADE = re.compile(r"<!-- made: (?P<name>[\w-]+) -->\n(?P<content>.*?)<!-- end of (?P=name) -->", re.DOTALL)


@dataclass(frozen=True)
class BlockOptions:
    """How a block is run and compared."""

    is_slow: bool = False
    """It takes long, so only `make docs` and `make test-all` run it."""
    is_shape: bool = False
    """What it prints varies: the shapes of its lines are compared, without numbers and in any order."""
    serves: bool = False
    """Its command is a server: it runs on until the end of the document, or until the next server."""
    head: int = 0
    """Only so many lines of each output are written; 0 for all."""

    @classmethod
    def parse(cls, text: str) -> "BlockOptions":
        """Raises ValueError for an unknown option."""
        words = dict.fromkeys(text.split())
        head = next((int(word.removeprefix("head=")) for word in words if word.startswith("head=")), 0)
        known = {"slow", "shape", "serve", f"head={head}"}
        if unknown := words.keys() - known:
            raise ValueError(f"unknown option of a block: {', '.join(unknown)}")
        return cls("slow" in words, "shape" in words, "serve" in words, head)


@dataclass(frozen=True)
class Block:
    """A fenced block with commands."""

    options: BlockOptions
    content: str
    start: int
    """Where the content begins in the text of the document."""

    @property
    def commands(self) -> list[str]:
        """The lines behind `$ `, as they stand there; a backslash at the end continues a line."""
        joined = self.content.replace("\\\n", "\\\0")
        return [line[2:].replace("\\\0", "\\\n") for line in joined.splitlines() if line.startswith("$ ")]


def blocks_of(text: str) -> Iterator[Block]:
    """The blocks with commands, in the order of the document."""
    for match in _BLOCK.finditer(text):
        yield Block(BlockOptions.parse(match["options"] or ""), match["content"], match.start("content"))


def made_parts(text: str) -> Iterator[tuple[str, str, int]]:
    """Name, content and place of each part that a function writes."""
    for match in _MADE.finditer(text):
        yield match["name"], match["content"], match.start("content")


def replace_parts(text: str, parts: list[tuple[int, str, str]]) -> str:
    """The text with new contents: place, former content, new content."""
    for start, before, now in sorted(parts, reverse=True):
        assert text[start : start + len(before)] == before
        text = text[:start] + now + text[start + len(before) :]
    return text
