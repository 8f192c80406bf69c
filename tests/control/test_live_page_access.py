"""The live page in a browser: who may see and act, and what other pages and hostile names can do."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from regroup.control.web.files import PortKind
from regroup.testing import Emulator
from tests.browser import opened_page
from tests.control.conftest import TOKEN, Control, StartControl
from tests.control.live_page import add, address, hands, wait_for_event
from tests.testing.conftest import stable_pair

HOSTILE = '<img src=x onerror="document.title=1"> "\' \u202e日本'

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
def test_the_token_is_the_password(kafka: Emulator, start_control: StartControl) -> None:
    stable_pair(kafka)
    port = start_control(kind=PortKind.PAGE, token=TOKEN)
    with opened_page(http_credentials={"username": "any", "password": TOKEN}) as page:
        page.goto(address(port))
        hands(page).get_by_role("row", name="second running").wait_for()
        wait_for_event(page, "assignment-committed")
    with opened_page(http_credentials={"username": "any", "password": "wrong"}) as page:
        assert page.goto(address(port)).status == 401


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
