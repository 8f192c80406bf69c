"""The live page in a browser: what is done there reaches the group, and the page shows what follows."""

from pathlib import Path
from typing import Any

import pytest

from regroup.testing import Emulator
from tests.browser import opened_page
from tests.control.conftest import Control
from tests.control.live_page import SAME_HISTORY, add, address, hands, open_with_members, wait_for_event
from tests.testing.conftest import stable_pair

SESSION_OF_BEN_RUNS_DOWN = """() => runningClocks(stage).some(({ kind, member, at }) =>
  kind === "session" && stage.history.nameOf(member) === "ben" && at - stage.cursor.at < 3000)"""
"""It is seen every second while it runs, and its session of five seconds starts again."""
FOCUSED = "document.activeElement.getAttribute('aria-label') ?? document.activeElement.labels?.[0]?.textContent"


def test_a_crash_clicked_on_the_page_reaches_the_group(kafka: Emulator, port: Control) -> None:
    with opened_page() as page:
        page.goto(address(port))
        page.get_by_text("No group exists yet").wait_for()
        add(page, "anna", "ben")
        kafka.group("classroom").wait_until_stable(members=2)
        page.get_by_role("button", name="Crash: ben").click()
        assert kafka.group("classroom").wait_until_stable(members=1).members[0].client_id == "anna"
        wait_for_event(page, "member-removed")
        hands(page).get_by_role("row", name="ben crashed").wait_for()
        hands(page).get_by_role("row").filter(has_text="anna").filter(has_text="orders 0-1").wait_for()
        last = kafka.group("classroom").events()[-1].position
        page.wait_for_function("(position) => stage.history.lastPosition === position", arg=last)
        assert page.evaluate(SAME_HISTORY) == []
        assert page.errors == []


@pytest.mark.slow
def test_the_keyboard_is_enough(kafka: Emulator, port: Control) -> None:
    with opened_page() as page:
        page.goto(address(port))
        page.get_by_text("No group exists yet").wait_for()
        press_until(page, "Name")
        page.keyboard.type("anna")
        page.keyboard.press("Enter")
        kafka.group("classroom").wait_until_stable(members=1)
        wait_for_event(page, "assignment-committed")
        press_until(page, "Pause: anna")
        page.keyboard.press("Enter")
        hands(page).get_by_role("row", name="anna paused").wait_for()
        # The button is gone, and the focus is on another one of the row.
        assert page.evaluate("document.activeElement.closest('tr')?.textContent").startswith("anna")
        press_until(page, "Resume: anna")
        page.keyboard.press("Space")
        hands(page).get_by_role("row", name="anna running").wait_for()
        assert page.errors == []


def press_until(page: Any, name: str) -> None:
    """Press Tab until the focus is on the field or button of this name."""
    for _ in range(80):
        if page.evaluate(FOCUSED) == name:
            return
        page.keyboard.press("Tab")
    raise AssertionError(f"no way to {name!r} by Tab")


@pytest.mark.slow
def test_each_act_does_what_its_button_says(kafka: Emulator, port: Control) -> None:
    group = kafka.group("classroom")
    with opened_page() as page:
        open_with_members(page, kafka, port, "anna", "ben")
        page.get_by_label("Partitions", exact=True).fill("4")
        page.get_by_role("button", name="Create or extend").click()
        group.wait_until(lambda now: sum(len(each.partitions) for each in now.members) == 4)
        page.get_by_role("button", name="Hold next SyncGroup: anna").click()
        page.get_by_role("button", name="Release SyncGroup: anna").wait_for()
        page.get_by_role("button", name="Leave: ben").click()
        group.wait_until(lambda now: now.state == "CompletingRebalance")
        page.get_by_role("button", name="Release SyncGroup: anna").click()
        group.wait_until_stable(members=1)
        page.get_by_role("button", name="Start again: ben").click()
        group.wait_until_stable(members=2)
        coordinator = port.look("/coordinator", group="classroom")["broker"]
        page.get_by_role("button", name=f"Stop: Broker {coordinator}").click()
        page.get_by_text(f"Broker {coordinator}: stopped").wait_for()
        wait_for_event(page, "coordinator-loaded")
        page.get_by_role("button", name=f"Start: Broker {coordinator}").click()
        page.get_by_text(f"Broker {coordinator}: running").wait_for()
        page.get_by_role("button", name="Slow: anna").click()
        hands(page).get_by_role("row", name="Slow 10 s").wait_for()
        assert page.errors == []


@pytest.mark.slow
def test_each_act_is_seen_in_the_pictures(kafka: Emulator, port: Control) -> None:
    group = kafka.group("classroom")
    with opened_page() as page:
        open_with_members(page, kafka, port, "anna", "ben", session_s="5")
        rows = page.locator(".twin:visible").first.get_by_role("row")
        owners = page.locator(".twin:visible").last.get_by_role("row")
        page.get_by_label("Partitions", exact=True).fill("4")
        page.get_by_role("button", name="Create or extend").click()
        owners.filter(has_text="orders-3").wait_for()
        page.locator("#hands .top input").fill("2")
        page.get_by_role("button", name="Slow: anna").click()
        hands(page).get_by_role("row", name="Slow 2 s").wait_for()
        add(page, "carla", session_s="5")
        rows.filter(has_text="carla").filter(has_text="JoinGroup held").wait_for()
        group.wait_until_stable(members=3)
        page.get_by_role("button", name="Leave: carla").click()
        rows.filter(has_text="carla").wait_for(state="detached")
        page.get_by_role("button", name="Not slow: anna").click()
        group.wait_until_stable(members=2)
        page.get_by_role("button", name="Pause: ben").click()
        page.get_by_role("tab", name="Clocks").click()
        page.wait_for_function(SESSION_OF_BEN_RUNS_DOWN)
        wait_for_event(page, "member-removed")
        coordinator = port.look("/coordinator", group="classroom")["broker"]
        page.get_by_role("button", name=f"Stop: Broker {coordinator}").click()
        page.locator("#brokers").get_by_text(f"1/2 brokers run, stopped: {coordinator}").wait_for()
        wait_for_event(page, "coordinator-loaded")
        page.get_by_role("tab", name="Sequence").click()
        page.get_by_role("button", name="Crash: anna").click()
        rows.filter(has_text="anna").wait_for(state="detached")
        assert page.errors == []


HELD_BAR = """() => {
  const { history, axis } = stage, [spans] = history.ruleHeldByLane.values();
  const [bar] = visibleSpans(spans, axis);
  return [bar.right, axis.x(axis.nowAt), axis.nowAt];
}"""
"""Where the bar of the request that is held ends, and where the present is, in pixels; and the time of the present."""
OPEN_BAR_AT_THE_LAST_EVENT = """() => {
  const { history, axis } = stage;
  stage.goOn(history.lastAt, true);
  const [bar] = visibleSpans([{ beganAt: history.beganAt, endedAt: null }], axis);
  return [bar.right, axis.x(axis.nowAt)];
}"""
"""Where the bar of what has not ended ends while the last event is the present, and where the present is, in pixels."""


@pytest.mark.slow
def test_a_syncgroup_that_a_rule_holds_is_a_bar_that_reaches_the_present(kafka: Emulator, port: Control) -> None:
    with opened_page() as page:
        open_with_members(page, kafka, port, "anna")
        page.get_by_role("button", name="Hold next SyncGroup: anna").click()
        page.get_by_role("button", name="Release SyncGroup: anna").wait_for()
        page.get_by_label("Partitions", exact=True).fill("4")
        page.get_by_role("button", name="Create or extend").click()
        kafka.group("classroom").wait_until(lambda now: now.state == "CompletingRebalance")
        page.get_by_role("cell", name="SyncGroup: held by a fault rule").wait_for()
        page.wait_for_function("() => stage.axis.nowAt > [...stage.history.ruleHeldByLane.values()][0][0].beganAt")
        end, now, now_ms = page.evaluate(HELD_BAR)
        assert end == now
        page.wait_for_function("(now) => stage.axis.nowAt > now + 500", arg=now_ms)
        end, now, _ = page.evaluate(HELD_BAR)
        assert end == now
        page.get_by_role("button", name="Release SyncGroup: anna").click()
        kafka.group("classroom").wait_until_stable(members=1)
        page.wait_for_function("() => [...stage.history.ruleHeldByLane.values()][0][0].endedAt !== null")
        assert page.errors == []


@pytest.mark.slow
def test_a_bar_that_has_not_ended_ends_in_the_present_also_at_the_last_event(kafka: Emulator, port: Control) -> None:
    with opened_page() as page:
        open_with_members(page, kafka, port, "anna")
        end, now = page.evaluate(OPEN_BAR_AT_THE_LAST_EVENT)
        assert end == now
        assert page.errors == []


@pytest.mark.slow
def test_a_held_syncgroup_ends_with_its_client(kafka: Emulator, port: Control) -> None:
    with opened_page() as page:
        open_with_members(page, kafka, port, "anna")
        page.get_by_role("button", name="Hold next SyncGroup: anna").click()
        page.get_by_text("The next SyncGroup of anna will be held.").wait_for()
        page.get_by_label("Partitions", exact=True).fill("4")
        page.get_by_role("button", name="Create or extend").click()
        page.get_by_text("Topic orders now has 4 partitions.").wait_for()
        page.get_by_role("cell", name="SyncGroup: held by a fault rule").wait_for()
        page.get_by_role("button", name="Crash: anna").click()
        page.get_by_text("anna crashed.").wait_for()
        page.wait_for_function("() => [...stage.history.ruleHeldByLane.values()][0][0].endedAt !== null")
        page.get_by_role("cell", name="SyncGroup: held by a fault rule").wait_for(state="detached")
        assert page.errors == []


WANTED_ROW = """(epoch) => {
  const row = new MemberRow({ source: {} }, "java"), partitions = [{ topic: "orders", partition: 0 }];
  row.show({ client_id: "java", member_id: "java-1", condition: "running", isSimulated: false, partitions, epoch });
  return [row.owns.textContent, row.buttons.hold.hidden];
}"""


@pytest.mark.slow
def test_of_a_real_client_the_panel_shows_what_is_assigned(kafka: Emulator, port: Control) -> None:
    with opened_page() as page:
        page.goto(address(port))
        page.get_by_text("No group exists yet").wait_for()
        assert page.evaluate(WANTED_ROW, None) == ["assigned: orders 0", False]
        assert page.evaluate(WANTED_ROW, 3) == ["assigned: orders 0", True]
        assert page.errors == []


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_axe_finds_nothing_serious_in_the_panel(kafka: Emulator, port: Control, scheme: str, language: str) -> None:
    axe = pytest.importorskip("axe_core_python", reason="needs axe-core-python")
    port.act("/simulated-member/add", group="classroom", topics=["orders"], client_id="anna")
    port.act("/simulated-member/add", group="classroom", topics=["orders"], client_id="ben")
    kafka.group("classroom").wait_until_stable(members=2)
    port.act("/simulated-member/crash", client="ben")
    with opened_page(color_scheme=scheme, bypass_csp=True) as page:
        page.goto(f"{address(port)}?language={language}")
        page.locator("#hands .session.ending").wait_for()
        page.evaluate((Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8"))
        found = page.evaluate("axe.run('#hands, header')")["violations"]
        assert [each["id"] for each in found if each["impact"] in ("serious", "critical")] == []
        assert page.errors == []


@pytest.mark.slow
def test_a_real_client_is_crashed_and_revived(kafka: Emulator, port: Control) -> None:
    stable_pair(kafka)
    with opened_page() as page:
        page.goto(address(port))
        page.get_by_role("button", name="Crash: second").click()
        assert [
            each.client_id for each in kafka.group("billing").wait_until(lambda now: len(now.members) == 1).members
        ] == ["first"]
        wait_for_event(page, "member-removed")
        page.get_by_role("button", name="Revive: second").click()
        page.get_by_role("button", name="Revive: second").wait_for(state="hidden")
        assert kafka._emulator.interference.crashed_clients == ()
        assert page.get_by_role("button", name="Pause: first").count() == 0
        assert page.errors == []
