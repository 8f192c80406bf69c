"""Write the table of planted bugs in docs/chaos.md from the results of a hunt:

    regroup chaos bugs --save-in found
    python scripts/write_planted_bugs.py found

A bug without a result in the folder keeps its row.
"""

import re
import sys
from pathlib import Path
from typing import Final

import msgspec

from regroup.lab.planted_bugs.registry import BUGS

ROOT: Final = Path(__file__).parent.parent
PAGE: Final = ROOT / "docs" / "chaos.md"
BEGIN, END = "<!-- planted bugs -->", "<!-- end of planted bugs -->"
HEAD: Final = "| Bug | What it does | Seeds | Shrunk to | First violation |\n|---|---|---|---|---|"


class Result(msgspec.Struct):
    """What `regroup chaos bugs` saves of one bug."""

    bug: str
    seeds: int
    size: str
    sentence: str


def row_of(result: Result) -> str:
    """The row of a bug with what the hunt has found out about it."""
    size = re.sub(r"(\d+) (member|step)s?", lambda each: f"{each[1]}{each[2][0]}", result.size) or "–"
    return f"| `{result.bug}` | {BUGS[result.bug].sentence} | {result.seeds} | {size} | {result.sentence} |"


def table(page: str, results: dict[str, Result]) -> str:
    """The page with the table of all bugs, in the order in which `regroup chaos list` names them."""
    present = {row[1]: row[0] for row in re.finditer(r"^\| `([a-z0-9-]+)` \|.*\|$", page, re.MULTILINE)}
    rows = [row_of(results[name]) if name in results else present[name] for name in BUGS]
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{HEAD}\n" + "\n".join(rows) + f"\n\n{END}{after}"


if __name__ == "__main__":
    found = [msgspec.json.decode(each.read_bytes(), type=Result) for each in sorted(Path(sys.argv[1]).glob("*.json"))]
    PAGE.write_text(table(PAGE.read_text("utf-8"), {each.bug: each for each in found}), "utf-8")
