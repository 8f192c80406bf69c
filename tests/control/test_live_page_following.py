"""The live page in a browser: it follows time, groups and brokers, and a history that starts again."""

import pytest

from regroup.testing import Emulator
from tests.browser import opened_page
from tests.control.conftest import Control
from tests.control.live_page import SAME_HISTORY, add, address, hands, open_with_members, wait_for_event
from tests.control.test_simulated import until
from tests.testing.conftest import stable_pair


@pytest.mark.slow
def test_the_session_of_a_crashed_member_runs_down(kafka: Emulator, port: Control) -> None:
    with opened_page() as page:
        page.goto(address(port))
        add(page, "anna", session_s="4")
        kafka.group("classroom").wait_until_stable(members=1)
        page.get_by_role("button", name="Crash: anna").click()
        page.locator("#hands .session.ending").wait_for()
        left_s = float(page.locator("#hands .session").inner_text().removesuffix(" s"))
        assert 0 < left_s < 4
        page.get_by_role("tab", name="Clocks").click()
        kafka.group("classroom").wait_until(lambda now: now.state == "Empty")
        page.get_by_role("row", name="anna crashed –").wait_for()
        assert page.errors == []


@pytest.mark.slow
def test_clocks_run_down_at_the_end_of_a_history(kafka: Emulator, port: Control) -> None:
    port.act("/fault/add", on="SyncGroup", hold=True)
    with opened_page() as page:
        page.goto(address(port))
        add(page, "anna", session_s="30")
        wait_for_event(page, "generation-started")
        page.get_by_role("tab", name="Clocks").click()
        passed = "stage.cursor.at - stage.history.times[stage.history.length - 1]"
        page.wait_for_function(f"() => {passed} > 1000")
        page.get_by_text("sync-phase").first.wait_for()
        # A moment before the end stands still.
        page.get_by_role("button", name="Step back").first.click()
        page.wait_for_timeout(700)
        assert page.evaluate("stage.cursor.at === stage.history.times[stage.cursor.index]")
        assert page.errors == []


@pytest.mark.slow
def test_a_member_of_another_group_comes_with_a_way_there(kafka: Emulator, port: Control) -> None:
    with opened_page() as page:
        open_with_members(page, kafka, port, "anna")
        add(page, "ben", group="others", session_s="30")
        page.get_by_text("ben was added to group others.").wait_for()
        page.get_by_role("button", name="Show group others").click()
        page.get_by_role("heading", name="Group others").wait_for()
        hands(page).get_by_role("row", name="ben running").wait_for()
        assert page.errors == []


@pytest.mark.slow
def test_a_page_without_any_broker_does_not_say_stable_alone(kafka: Emulator, port: Control) -> None:
    with opened_page() as page:
        open_with_members(page, kafka, port, "anna")
        assert page.locator("#brokers").inner_text() == ""
        page.locator(".facts").get_by_text("Stable", exact=True).wait_for()
        for broker in (1, 0):
            page.get_by_role("button", name=f"Stop: Broker {broker}").click()
            page.get_by_text(f"Broker {broker}: stopped").wait_for()
        page.locator("#brokers").get_by_text("0/2 brokers run, stopped: 0, 1").wait_for()
        page.locator(".facts").get_by_text("(no broker runs)").wait_for()
        page.get_by_role("button", name="Start: Broker 0").click()
        page.locator("#brokers").get_by_text("1/2 brokers run, stopped: 1").wait_for()
        page.locator(".facts").get_by_text("(no broker runs)").wait_for(state="detached")
        assert page.errors == []


SEEN_LATER = """() => {
  const sessionAt = (shown) => runningClocks(shown).find(({ kind }) => kind === "session");
  const { history, cursor } = stage, { member, at } = sessionAt(stage);
  return sessionAt({ history, cursor, sessionEnds: new Map([[member, at + 5000]]) }).at - at;
}"""
"""By how much a session ends later on the page if the coordinator says that it ends five seconds later."""


@pytest.mark.slow
def test_a_session_on_the_page_ends_when_the_coordinator_says_so(kafka: Emulator, port: Control) -> None:
    with opened_page() as page:
        open_with_members(page, kafka, port, "anna")
        page.get_by_role("tab", name="Clocks").click()
        page.wait_for_function("() => stage.sessionEnds?.size && runningClocks(stage).length")
        assert page.evaluate(SEEN_LATER) == 5_000
        assert page.errors == []


@pytest.mark.slow
def test_the_page_goes_on_after_the_brokers_were_killed(kafka: Emulator, port: Control) -> None:
    with opened_page() as page:
        open_with_members(page, kafka, port, "anna")
        port.act("/emulator/kill")
        page.get_by_text("The brokers are down.").wait_for()
        port.act("/emulator/restart")
        wait_for_event(page, "coordinator-loaded")
        page.get_by_text("The brokers are down.").wait_for(state="detached")
        assert page.evaluate(SAME_HISTORY) == []


@pytest.mark.slow
def test_a_history_that_begins_anew_is_shown_from_there_on(
    kafka: Emulator, port: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regroup.classroom.live.following.MAX_EVENTS", 15)
    with opened_page() as page:
        open_with_members(page, kafka, port, "anna", "ben")
        for count in (3, 4, 5):
            port.act("/simulated-member/add", group="classroom", topics=["orders"])
            kafka.group("classroom").wait_until_stable(members=count)
        last = kafka.group("classroom").events()[-1].position
        page.wait_for_function("(position) => stage.history?.lastPosition === position", arg=last)
        assert page.evaluate("stage.history.isTrimmed && stage.history.length <= 15")
        assert page.evaluate(SAME_HISTORY) == []
        page.get_by_text("Earlier events have been trimmed.").wait_for()
        assert page.errors == []


@pytest.mark.slow
def test_a_tab_that_is_not_looked_at_is_not_connected(kafka: Emulator, port: Control) -> None:
    stable_pair(kafka)
    look = """(hidden) => {
      Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
    }"""
    with opened_page() as page:
        page.goto(address(port))
        wait_for_event(page, "assignment-committed")
        until(lambda: port.look("/emulator")["waiting_requests"] == 1)
        page.evaluate(look, True)
        until(lambda: port.look("/emulator")["waiting_requests"] == 0)
        kafka.group("billing").expire("second")
        page.evaluate(look, False)
        wait_for_event(page, "member-removed")
        assert page.errors == []


@pytest.mark.slow
def test_a_new_group_can_be_chosen(kafka: Emulator, port: Control) -> None:
    with opened_page() as page:
        page.goto(address(port))
        add(page, "anna")
        wait_for_event(page, "group-created")
        add(page, "zoe", group="zoo")
        page.locator(".runs select").first.select_option(label="live · zoo")
        page.get_by_role("heading", name="Group zoo").wait_for()
        hands(page).get_by_role("row", name="zoe running").wait_for()
        assert hands(page).get_by_role("row", name="anna running").count() == 0
        kafka.group("zoo").wait_until_stable(members=1)
        wait_for_event(page, "assignment-committed")
