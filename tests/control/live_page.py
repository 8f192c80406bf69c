"""The live page in a browser: its address, its panel of actions, and what it shows as the history."""

from typing import Any

from regroup.testing import Emulator
from tests.control.conftest import Control

SAME_HISTORY = """async () => {
  const known = stage.history, read = new GroupHistory(await regroupPage.source.read(regroupPage.number), "");
  const parts = ["positions", "times", "types", "states", "sentences", "lanes", "held", "stateSpans", "generations",
    "rebalances", "deadlines", "rows", "offsets", "lastPosition"];
  const ordered = (list) => Array.isArray(list) ? [...list].map((each) => JSON.stringify(each)).sort() : list;
  return parts.filter((part) => JSON.stringify(ordered(known[part])) !== JSON.stringify(ordered(read[part])));
}"""
"""The parts of the history on the page that differ from those of the same history, read as a whole."""


def address(control: Control, host: str = "127.0.0.1") -> str:
    return f"http://{host}:{control.port}/"


def hands(page: Any) -> Any:
    """The panel of actions."""
    return page.locator("#hands")


def add(page: Any, *names: str, group: str = "classroom", session_s: str = "1") -> None:
    """Add members by the form, each once the one before is in the table."""
    for name in names:
        page.get_by_label("Group", exact=True).fill(group)
        page.get_by_label("Name", exact=True).fill(name)
        page.get_by_label("Session timeout in s").fill(session_s)
        page.get_by_role("button", name="Add", exact=True).click()
        if group == "classroom":
            hands(page).get_by_role("row", name=name).wait_for()


def open_with_members(page: Any, kafka: Emulator, control: Control, *names: str, session_s: str = "30") -> None:
    """Open the page, add members to the group `classroom`, and wait until each has its partitions there."""
    page.goto(address(control))
    add(page, *names, session_s=session_s)
    kafka.group("classroom").wait_until_stable(members=len(names))
    wait_for_event(page, "assignment-committed")


def wait_for_event(page: Any, kind: str) -> None:
    """Wait until the page shows this as the history's, and the present moment is the last one."""
    page.wait_for_function(
        "(kind) => document.documentElement.dataset.ready && stage.history.types.includes(kind)"
        " && stage.cursor.index === stage.history.length - 1",
        arg=kind,
    )
