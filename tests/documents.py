"""What README and docs show: blocks of code with their output, commands, links, and forms of `pip install`."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")
_WORD = r"(?:'[^']+'|[\w.\[\]/<>=,-]*[\w\]]|\.)"
_PIP_INSTALL = re.compile(rf"pip install ({_WORD}(?: {_WORD})*)(?=$|[\s`,.;:)])", re.MULTILINE)


class Block(NamedTuple):
    language: str
    text: str


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page."""
    return [Block(*found) for found in _FENCE.findall(page.read_text(encoding="utf-8"))]


def programs(page: Path) -> Iterator[tuple[str, str | None]]:
    """The blocks of Python, each with the block of text that follows it, if there is one."""
    shown = blocks(page)
    for block, after in zip(shown, [*shown[1:], None], strict=True):
        if block.language == "python":
            yield block.text, after.text if after and after.language == "text" else None


def commands(page: Path) -> list[str]:
    """The lines behind `$ ` in blocks of the shell, without the comments behind them."""
    lines = [line for block in blocks(page) if block.language == "console" for line in block.text.splitlines()]
    return [re.sub(r"\s+# .*", "", line[2:]) for line in lines if line.startswith("$ ")]


def links(page: Path) -> list[str]:
    """The files that a page links to, relative to its folder."""
    return [target for target in _LINK.findall(page.read_text(encoding="utf-8")) if "://" not in target]


@cache
def pip_installs() -> dict[str, list[str]]:
    """Everything behind `pip install ` in documents, help texts and messages, and where it is printed."""
    found: dict[str, list[str]] = {}
    for source in [*PAGES, *ROOT.glob("*.yaml"), *ROOT.glob(".pre-commit-config.yaml"), *_code()]:
        texts = _strings(source) if source.suffix == ".py" else [source.read_text(encoding="utf-8")]
        for text in texts:
            for words in _PIP_INSTALL.findall(text):
                found.setdefault(words, []).append(source.relative_to(ROOT).as_posix())
    return found


def _code() -> list[Path]:
    return [source for package in ROOT.glob("*/py.typed") for source in sorted(package.parent.rglob("*.py"))]


def _strings(source: Path) -> list[str]:
    """The string constants of a file that installs: each as it is printed, however many lines the code gives it."""
    text = source.read_text(encoding="utf-8")
    if "install" not in text:
        return []  # parsing takes longer than reading
    constants = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)]
    return [node.value for node in constants if isinstance(node.value, str)]
