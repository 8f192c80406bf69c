"""Who may ask, and how much: Host, Origin, token, sizes, and the number of waits."""

import http.client
import socket
import time
from base64 import b64encode
from collections.abc import Callable
from contextlib import closing

import pytest

from regroup.control.web import application
from regroup.control.web.access import Access, host_name
from regroup.control.web.guard import is_trustworthy
from regroup.coordinator.settings import InvalidSetting
from regroup.testing import Emulator
from tests.control.conftest import TIMEOUT_S, TOKEN, Control, Port, StartControl


def asked_as(control: Control, **headers: str) -> int:
    return control.get("/groups", {name.replace("_", "-"): value for name, value in headers.items()}).status


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "LOCALHOST", "localhost.", "[::1]", "127.0.0.1:1"])
def test_the_own_names_are_answered(looked_at: Control, host: str) -> None:
    assert asked_as(looked_at, host=host) == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example",
        "evil.example:80",
        "user@localhost",
        "localhost/x",
        "192.168.0.7",
        "",
        "localhost:port",
        "[::1",
    ],
)
def test_another_host_is_refused(looked_at: Control, host: str) -> None:
    """A DNS name of an attacker may be made to lead to this machine."""
    assert asked_as(looked_at, host=host) == 403


def test_two_hosts_are_refused(looked_at: Control) -> None:
    with closing(http.client.HTTPConnection(looked_at.host, looked_at.port, timeout=10)) as connection:
        connection.putrequest("GET", "/groups", skip_host=True)
        connection.putheader("Host", "localhost")
        connection.putheader("Host", "evil.example")
        connection.endheaders()
        assert connection.getresponse().status in (400, 403)


@pytest.mark.parametrize("path", ["/", "/page.js", "/openapi.json", "/groups", "/unknown"])
def test_every_path_checks_the_host(looked_at: Control, path: str) -> None:
    assert looked_at.get(path, {"host": "evil.example"}).status == 403


def test_pages_of_other_origins_are_refused(looked_at: Control) -> None:
    own = f"127.0.0.1:{looked_at.port}"
    assert asked_as(looked_at, host=own, origin=f"http://{own}") == 200
    for origin in (
        "http://evil.example",
        "null",
        "http://127.0.0.1:1",
        f"http://localhost:{looked_at.port}",
        f"file://{own}",
        "http://[",
        "",
    ):
        assert asked_as(looked_at, host=own, origin=origin) == 403, origin
    assert asked_as(looked_at, sec_fetch_site="cross-site") == 403
    assert asked_as(looked_at, sec_fetch_site="same-site") == 403
    assert asked_as(looked_at, sec_fetch_site="same-origin") == 200


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", "multipart/form-data", ""])
def test_a_form_of_a_page_cannot_act(kafka: Emulator, control: Control, kind: str) -> None:
    answer = control.send("POST", "/topic/create", b'{"topic":"made"}', {"content-type": kind})
    assert (answer.status, "application/json" in answer.error) == (415, True)
    assert "made" not in kafka.topics()


@pytest.mark.parametrize(
    ("host", "is_there"), [("localhost", True), ("127.0.0.1:1", True), ("[::1]", True), ("a.example", False)]
)
def test_the_opener_policy_is_for_origins_that_browsers_trust(host: str, *, is_there: bool) -> None:
    """On others Chromium ignores it, and logs that as an error."""
    scope = {"type": "http", "scheme": "http", "headers": [(b"host", host.encode())]}
    assert is_trustworthy(scope) is is_there
    assert is_trustworthy({**scope, "scheme": "https"})


def test_nothing_is_allowed_to_other_origins(looked_at: Control) -> None:
    answer = looked_at.send("OPTIONS", "/topic/create", headers={"access-looked_at-request-method": "POST"})
    assert answer.status == 405
    assert not [name for name in answer.headers if name.startswith("access-looked_at")]


def test_a_token_is_required_once_it_is_set(start_control: StartControl) -> None:
    control = start_control(token=TOKEN)
    basic = b64encode(f"any:{TOKEN}".encode()).decode()
    assert asked_as(control, authorization=f"Bearer {TOKEN}") == 200
    assert asked_as(control, authorization=f"Basic {basic}") == 200
    for wrong in (
        "Bearer",
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
        TOKEN,
        "Basic !",
        "Basic é",
        "Basic ",
        "Digest x",
    ):
        assert asked_as(control, authorization=wrong) == 401, wrong
    for path in ("/", "/openapi.json", "/groups", "/unknown"):
        answer = control.get(path)
        assert (answer.status, answer.headers["www-authenticate"][:5]) == (401, "Basic")
        assert TOKEN not in answer.error


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_no_other_machine_may_ask_without_a_token(start_control: StartControl, host: str) -> None:
    with pytest.raises(InvalidSetting, match="needs a token: name a file with --control-token FILE"):
        start_control(host=host)
    with pytest.raises(InvalidSetting, match="has 5 characters; give 16 or more"):
        start_control(host=host, token="short")


def test_beyond_this_machine_names_are_checked_and_addresses_are_not() -> None:
    access = Access(host="0.0.0.0", names=["kafka"], token=TOKEN)
    assert [access._is_own(each) for each in ("kafka:9080", "KAFKA", "192.168.0.7:9080", "[fe80::1]:80")] == [True] * 4
    assert [access._is_own(each) for each in ("evil.example", "kafka.evil.example", "192.168.0.7.nip.io")] == [
        False
    ] * 3


def test_a_host_is_read_without_its_port() -> None:
    assert [host_name(each) for each in ("[::1]:80", "A.b:80", "a")] == ["::1", "a.b", "a"]


def test_a_body_is_bounded(control: Control) -> None:
    answer = control.post("/topic/produce", topic="orders", value="x" * application.MAX_BODY_BYTES)
    assert (answer.status, "more than 1048576 bytes" in answer.error) == (413, True)
    assert control.post("/topic/produce", topic="orders", value="x" * 1_000_000).status == 200


@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", b"null", b'"x"', b"\xff", b'{"topic": "\xff"}', b'{"topic":"\\ud800"}', b"{}x", b'{"topic":1}'],
)
def test_a_body_that_is_not_the_input_is_invalid(looked_at: Control, body: bytes) -> None:
    answer = looked_at.send("POST", "/topic/delete", body, {"content-type": "application/json; charset=utf-8"})
    assert (answer.status, bool(answer.error)) == (422, True)


def test_an_empty_body_is_an_empty_object(control: Control) -> None:
    answer = control.send("POST", "/emulator/kill", b"", {"content-type": "application/json"})
    assert answer.status == 200


@pytest.mark.parametrize(
    "query",
    [
        "group=a&group=b",
        "group=",
        "",
        "group=a&members=two",
        "group=a&members=-1",
        "group=a&timeout_s=nan",
        "group=a&timeout_s=inf",
        "group=a&timeout_s=601",
        "group=a&timeout_s=-1",
        "member=x",
    ],
)
def test_a_query_that_is_not_the_input_is_invalid(looked_at: Control, query: str) -> None:
    answer = looked_at.get(f"/group/wait-stable?{query}")
    assert (answer.status, bool(answer.error)) == (422, True)


def test_a_wrong_field_is_named_first(looked_at: Control) -> None:
    said = [
        looked_at.post("/group/expire", group="billing", member=7).error,
        looked_at.get("/group/wait-stable", group="billing", members="two").error,
        looked_at.post("/group/forget-offsets", group="g", partitions=[{"topic": "t", "partition": -1}]).error,
    ]
    assert said == [
        "invalid member: expected str, got int",
        "invalid members: expected int | null, got str",
        "invalid partitions[0].partition: expected int >= 0",
    ]


def test_an_act_takes_no_query(looked_at: Control) -> None:
    answer = looked_at.send("POST", "/emulator/kill?x=1", b"{}", {"content-type": "application/json"})
    assert answer.status == 422


def until(condition: Callable[[], object]) -> None:
    """Wait for what happens in the thread of the emulator."""
    end = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def is_waited_for(kafka: Emulator) -> bool:
    """Whether a request waits for a change of the emulator."""
    return any(not change.done() for change in kafka._emulator.changes._waiting)


def test_the_number_of_waits_is_bounded(kafka: Emulator, control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(application, "MAX_WAITS", 1)
    first = control.in_background("/group/wait-stable", group="billing", timeout_s=600)
    until(lambda: is_waited_for(kafka))
    answer = control.get("/group/wait-stable", group="billing", timeout_s=0)
    assert (answer.status, answer.error) == (429, "1 requests wait already: let one of them end")
    control.act("/emulator/kill")
    assert first.result().status == 503
    control.act("/emulator/restart")
    assert control.get("/group/wait-stable", group="billing", timeout_s=0).status == 409


def test_a_wait_whose_client_is_gone_makes_room(
    kafka: Emulator, control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(application, "MAX_WAITS", 1)
    with socket.create_connection((control.host, control.port)) as gone:
        gone.sendall(b"GET /group/wait-stable?group=billing&timeout_s=600 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        until(lambda: is_waited_for(kafka))
        assert control.get("/group/wait-stable", group="billing", timeout_s=0).status == 429
    until(lambda: control.get("/group/wait-stable", group="billing", timeout_s=0).status == 409)


def test_waits_end_when_the_port_is_closed(kafka: Emulator) -> None:
    port = Port(kafka)
    waiting = port.control.in_background("/group/wait-stable", group="billing", timeout_s=600)
    until(lambda: is_waited_for(kafka))
    port.close()
    assert (waiting.result().status, waiting.result().error) == (503, "regroup is stopping")


def test_an_error_of_regroup_is_one_sentence_without_details(
    control: Control, kafka: Emulator, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(kafka._emulator, "topics", lambda: 1 / 0)
    answer = control.get("/topics")
    assert (answer.status, answer.error) == (500, "an error of regroup; its log has more")
    assert "ZeroDivisionError" in caplog.text


def test_an_unknown_path_is_not_found(looked_at: Control) -> None:
    answer = looked_at.get("/group/billing")
    assert (answer.status, answer.error) == (404, "there is no path '/group/billing'; /openapi.json lists them")


# The page


@pytest.mark.parametrize("path", ["/", "/page.js", "/page.css"])
def test_the_page_loads_nothing_from_elsewhere(looked_at: Control, path: str) -> None:
    answer = looked_at.get(path)
    assert answer.status == 200
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert b"http://" not in answer.body
    assert b"https://" not in answer.body


def test_the_page_makes_no_markup_of_texts(looked_at: Control) -> None:
    script = looked_at.get("/page.js").body.decode()
    for risky in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "DOMParser"):
        assert risky not in script
    page = looked_at.get("/").body.decode()
    assert "<script>" not in page
    assert " style=" not in page
