"""The table of planted bugs in docs/chaos.md."""

import re

from regroup.lab.planted_bugs.registry import BUGS
from scripts.write_planted_bugs import BEGIN, END, PAGE, Result, row_of, table

ROW = re.compile(r"^\| `(?P<name>[a-z0-9-]+)` \| (?P<sentence>[^|]+) \| \d+ \| \S[^|]* \| [^|]+ \|$", re.MULTILINE)


def test_each_bug_has_a_row_with_its_sentence_in_the_order_of_the_registry() -> None:
    rows = ROW.findall(PAGE.read_text("utf-8").partition(BEGIN)[2].partition(END)[0])
    assert rows == [(name, bug.sentence) for name, bug in BUGS.items()]


def test_a_result_replaces_the_row_of_its_bug_and_no_other() -> None:
    page = PAGE.read_text("utf-8")
    result = Result("two-leaders", 5, "2 members, 1 step", "A rule.")
    changed = set(table(page, {"two-leaders": result}).splitlines()) - set(page.splitlines())
    assert changed == {row_of(result)}
    assert "| 5 | 2m, 1s | A rule. |" in row_of(result)
