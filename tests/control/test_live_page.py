"""The live page in a browser: what is done there reaches the group, and the page shows what follows."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from regroup.control.web.files import PortKind
from regroup.testing import Emulator
from tests.browser import opened_page
from tests.control.conftest import TOKEN, Control, StartControl
from tests.control.test_simulated import until
from tests.testing.conftest import stable_pair

HOSTILE = '<img src=x onerror="document.title=1"> "\' \u202e日本'
FOCUSED = "document.activeElement.getAttribute('aria-label') ?? document.activeElement.labels?.[0]?.textContent"
SAME_HISTORY = """async () => {
  const known = stage.history, read = new GroupHistory(await regroupPage.source.read(regroupPage.number), "");
  const parts = ["positions", "times", "types", "states", "sentences", "lanes", "held", "stateSpans", "generations",
    "rebalances", "deadlines", "rows", "offsets", "lastPosition"];
  const ordered = (list) => Array.isArray(list) ? [...list].map((each) => JSON.stringify(each)).sort() : list;
  return parts.filter((part) => JSON.stringify(ordered(known[part])) !== JSON.stringify(ordered(read[part])));
}"""
"""The parts of the history on the page that differ from those of the same history, read as a whole."""


@pytest.fixture
def port(start_control: StartControl) -> Control:
    return start_control(kind=PortKind.PAGE)


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


def wait_for_event(page: Any, kind: str) -> None:
    """Wait until the page shows this as the history's, and the present moment is the last one."""
    page.wait_for_function(
        "(kind) => document.documentElement.dataset.ready && stage.history.types.includes(kind)"
        " && stage.cursor.index === stage.history.length - 1",
        arg=kind,
    )


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
        page.goto(address(port))
        add(page, "anna", "ben", session_s="30")
        group.wait_until_stable(members=2)
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


SESSION_OF_BEN_RUNS_DOWN = """() => runningClocks(stage).some(({ kind, member, at }) =>
  kind === "session" && stage.history.nameOf(member) === "ben" && at - stage.cursor.at < 3000)"""
"""It is seen every second while it runs, and its session of five seconds starts again."""


@pytest.mark.slow
def test_each_act_is_seen_in_the_pictures(kafka: Emulator, port: Control) -> None:
    group = kafka.group("classroom")
    with opened_page() as page:
        page.goto(address(port))
        add(page, "anna", "ben", session_s="5")
        group.wait_until_stable(members=2)
        wait_for_event(page, "assignment-committed")
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


@pytest.mark.slow
def test_a_syncgroup_that_a_rule_holds_is_a_bar_that_reaches_the_present(kafka: Emulator, port: Control) -> None:
    with opened_page() as page:
        page.goto(address(port))
        add(page, "anna", session_s="30")
        kafka.group("classroom").wait_until_stable(members=1)
        wait_for_event(page, "assignment-committed")
        page.get_by_role("button", name="Hold next SyncGroup: anna").click()
        page.get_by_role("button", name="Release SyncGroup: anna").wait_for()
        page.get_by_label("Partitions", exact=True).fill("4")
        page.get_by_role("button", name="Create or extend").click()
        kafka.group("classroom").wait_until(lambda now: now.state == "CompletingRebalance")
        page.get_by_role("cell", name="SyncGroup: held by a fault rule").wait_for()
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
def test_a_held_syncgroup_ends_with_its_client(kafka: Emulator, port: Control) -> None:
    with opened_page() as page:
        page.goto(address(port))
        add(page, "anna", session_s="30")
        kafka.group("classroom").wait_until_stable(members=1)
        wait_for_event(page, "assignment-committed")
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


@pytest.mark.slow
def test_a_member_of_another_group_comes_with_a_way_there(kafka: Emulator, port: Control) -> None:
    with opened_page() as page:
        page.goto(address(port))
        add(page, "anna", session_s="30")
        wait_for_event(page, "assignment-committed")
        add(page, "ben", group="others", session_s="30")
        page.get_by_text("ben was added to group others.").wait_for()
        page.get_by_role("button", name="Show group others").click()
        page.get_by_role("heading", name="Group others").wait_for()
        hands(page).get_by_role("row", name="ben running").wait_for()
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
def test_a_page_without_any_broker_does_not_say_stable_alone(kafka: Emulator, port: Control) -> None:
    with opened_page() as page:
        page.goto(address(port))
        add(page, "anna", session_s="30")
        kafka.group("classroom").wait_until_stable(members=1)
        wait_for_event(page, "assignment-committed")
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
        page.goto(address(port))
        add(page, "anna", session_s="30")
        kafka.group("classroom").wait_until_stable(members=1)
        wait_for_event(page, "assignment-committed")
        page.get_by_role("tab", name="Clocks").click()
        page.wait_for_function("() => stage.sessionEnds?.size && runningClocks(stage).length")
        assert page.evaluate(SEEN_LATER) == 5_000
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
def test_a_refused_act_is_said(port: Control) -> None:
    with opened_page() as page:
        page.goto(address(port))
        add(page, "anna")
        add_again = page.get_by_label("Name", exact=True)
        add_again.fill("anna")
        page.get_by_role("button", name="Add", exact=True).click()
        page.get_by_text("a simulated member with the client id 'anna' runs already").wait_for()


@pytest.mark.slow
def test_hostile_names_of_clients_groups_and_topics_stay_texts(kafka: Emulator, port: Control) -> None:
    port.act("/simulated-member/add", group=HOSTILE, topics=["orders"], client_id=HOSTILE)
    kafka.group(HOSTILE).wait_until_stable(members=1)
    with opened_page() as page:
        page.goto(address(port))
        page.get_by_role("heading", name='Group <img src=x onerror="document.title=1">').wait_for()
        hands(page).get_by_role("rowheader", name='<img src=x onerror="document.title=1">').first.wait_for()
        page.get_by_role("button", name='Crash: <img src=x onerror="document.title=1">').click()
        hands(page).get_by_role("row", name="crashed").wait_for()
        page.get_by_label("Topic", exact=True).last.fill(HOSTILE)
        page.get_by_role("button", name="Create or extend").click()
        page.locator("#hands .said.wrong").get_by_text("<img src=x").wait_for()
        assert page.locator("img").count() == 0
        assert "\u202e" not in page.locator("body").inner_text()
        assert page.title() != "1"
        assert [each for each in page.errors if "409" not in each] == []


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


@pytest.mark.slow
def test_an_audience_sees_and_has_nothing_to_act_with(kafka: Emulator, start_control: StartControl) -> None:
    stable_pair(kafka)
    with opened_page() as page:
        page.goto(address(start_control(kind=PortKind.PAGE_READ_ONLY)))
        page.get_by_text("This page is for an audience").wait_for()
        hands(page).get_by_role("row", name="second running, a real client").wait_for()
        assert page.locator("#hands button, #hands input, #hands select").count() == 0
        kafka.group("billing").expire("second")
        wait_for_event(page, "member-removed")
        assert page.errors == []


@pytest.mark.slow
def test_the_page_goes_on_after_the_brokers_were_killed(kafka: Emulator, port: Control) -> None:
    with opened_page() as page:
        page.goto(address(port))
        add(page, "anna", session_s="30")
        kafka.group("classroom").wait_until_stable(members=1)
        wait_for_event(page, "assignment-committed")
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
        page.goto(address(port))
        add(page, "anna", "ben", session_s="30")
        kafka.group("classroom").wait_until_stable(members=2)
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


@pytest.mark.slow
def test_the_token_is_the_password(kafka: Emulator, start_control: StartControl) -> None:
    stable_pair(kafka)
    port = start_control(kind=PortKind.PAGE, token=TOKEN)
    with opened_page(http_credentials={"username": "any", "password": TOKEN}) as page:
        page.goto(address(port))
        hands(page).get_by_role("row", name="second running").wait_for()
        wait_for_event(page, "assignment-committed")
    with opened_page(http_credentials={"username": "any", "password": "wrong"}) as page:
        assert page.goto(address(port)).status == 401


# Other pages


FOREIGN_PAGE = """<!doctype html><title>evil</title><script>
const tried = {}, base = "%s";
const read = (name, path, options) => fetch(base + path, options).then(async (response) => {
  tried[name] = response.type === "opaque" ? "sent" : "read " + (await response.text());
}, (error) => { tried[name] = "failed"; });
const json = JSON.stringify({ topic: "made" });
const events = new Promise((resolve) => {
  const stream = new EventSource(base + "group/follow?group=billing");
  stream.onmessage = ({ data }) => { tried.stream = "read " + data; resolve(); };
  stream.onerror = () => { tried.stream = "failed"; stream.close(); resolve(); };
});
const script = new Promise((resolve) => {
  const made = document.createElement("script");
  made.src = base + "openapi.json";
  made.onload = () => { tried.script = "loaded"; resolve(); };
  made.onerror = () => { tried.script = "failed"; resolve(); };
  document.head.append(made);
});
Promise.all([
  read("groups", "groups"), read("timeline", "timeline?group=billing"), events, script,
  read("act", "topic/create", { method: "POST", headers: { "content-type": "application/json" }, body: json }),
  read("form", "topic/create", { method: "POST", mode: "no-cors", body: json }),
]).then(() => { window.tried = tried; });
</script>"""


@contextmanager
def served(html: str) -> Iterator[str]:
    """The address of a page of another origin."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, *words: Any) -> None:
            """Nothing is printed."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


@pytest.mark.slow
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_page_of_another_origin_can_neither_act_nor_read(kafka: Emulator, port: Control, host: str) -> None:
    stable_pair(kafka)
    with served(FOREIGN_PAGE % address(port, host)) as foreign, opened_page() as page:
        page.goto(foreign)
        page.wait_for_function("() => window.tried")
        tried = page.evaluate("window.tried")
    assert tried == dict.fromkeys(("groups", "timeline", "stream", "script", "act", "form"), "failed")
    assert "made" not in kafka.topics()


@pytest.mark.slow
def test_a_name_that_was_made_to_lead_here_shows_nothing(kafka: Emulator, port: Control) -> None:
    stable_pair(kafka)
    with opened_page("--host-resolver-rules=MAP evil.example 127.0.0.1") as page:
        for path in ("", "timelines", "openapi.json"):
            answer = page.goto(f"{address(port, 'evil.example')}{path}")
            assert (answer.status, "billing" in answer.text()) == (403, False)
