"""The port of the classroom's page: what it serves, to whom, and what an audience may not do."""

import re
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from regroup.control.endpoints.all import ENDPOINTS
from regroup.control.web.files import PortKind
from regroup.coordinator.settings import InvalidSetting
from regroup.testing import Emulator
from tests.control.conftest import TOKEN, Control, Port, StartControl
from tests.testing.conftest import stable_pair

ACTS = [each for each in ENDPOINTS if each.method == "POST"]
LOOKS = ["/", "/page/live.js", "/openapi.json", "/timelines", "/timeline?group=billing", "/group/follow?group=billing"]


@pytest.fixture
def page(start_control: StartControl) -> Control:
    return start_control(kind=PortKind.PAGE)


@pytest.fixture
def audience(start_control: StartControl) -> Control:
    return start_control(kind=PortKind.PAGE_READ_ONLY)


@pytest.fixture(scope="module")
def looked_at_page(unchanged: Emulator) -> Iterator[Control]:
    with closing(Port(unchanged, kind=PortKind.PAGE)) as port:
        yield port.control


@pytest.fixture(scope="module")
def unchanged_audience(unchanged: Emulator) -> Iterator[Control]:
    with closing(Port(unchanged, kind=PortKind.PAGE_READ_ONLY)) as port:
        yield port.control


def test_the_page_and_all_its_files_come_from_its_own_address(page: Control) -> None:
    body = page.get("/").body.decode()
    named = re.findall(r'(?:src|href)="([^"]+)"', body)
    assert "page/live.js" in named
    assert "page/live.css" in named
    assert named[-1] == "page/page.js"
    for name in named:
        answer = page.get(f"/{name}")
        assert (answer.status, bool(answer.body)) == (200, True), name
        assert answer.headers["content-type"].startswith("text/css" if name.endswith(".css") else "text/javascript")
        assert answer.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self'")


def test_the_endpoints_are_described_beside_the_page(page: Control, control: Control) -> None:
    assert page.get("/endpoints").body == control.get("/").body == control.get("/endpoints").body
    assert page.get("/page.js").status == 200


def test_a_browser_that_asks_for_an_icon_gets_no_error(page: Control) -> None:
    assert page.get("/favicon.ico").status == 204


def test_the_control_port_has_no_page(control: Control) -> None:
    assert control.get("/page/live.js").status == 404


def test_the_histories_are_those_of_the_groups(kafka: Emulator, page: Control, audience: Control) -> None:
    assert page.look("/timelines") == {"runs": [], "read_only": False, "max_members": 200}
    stable_pair(kafka)
    assert page.look("/timelines")["runs"] == [{"label": "live", "group": "billing", "run": 0}]
    assert audience.look("/timelines")["read_only"] is True


def test_a_document_is_what_a_position_lacks(kafka: Emulator, page: Control) -> None:
    assert page.get("/timeline", group="billing").status == 404
    first, _ = stable_pair(kafka)
    whole = page.look("/timeline", group="billing", run=0)
    assert (whole["group"], whole["after"], len(whole["moments"]["position"])) == (
        "billing",
        0,
        len(kafka.group("billing").events()),
    )
    through = whole["last"][0]
    nothing = page.look("/timeline", group="billing", after=through)
    assert (nothing["moments"]["position"], nothing["last"]) == ([], whole["last"])
    kafka.group("billing").expire(first.member_id)
    later = page.look("/timeline", group="billing", after=through)
    assert 0 < len(later["moments"]["position"]) < len(whole["moments"]["position"])
    assert later["last"][0] == kafka.group("billing").events()[-1].position


@pytest.mark.parametrize("query", [{"run": 1}, {"after": -1}, {"after": "x"}, {"group": ""}])
def test_a_document_that_cannot_be_is_refused(page: Control, query: dict[str, Any]) -> None:
    assert page.get("/timeline", **{"group": "billing", **query}).status == 422


@pytest.mark.parametrize("endpoint", ACTS, ids=lambda each: each.path)
def test_an_audience_cannot_act(unchanged: Emulator, unchanged_audience: Control, endpoint: Any) -> None:
    before = unchanged.position()
    answer = unchanged_audience.post(endpoint.path, **endpoint.example)
    assert (answer.status, "does not act" in answer.error) == (403, True)
    assert unchanged.position() == before


def test_an_audience_sees(kafka: Emulator, audience: Control) -> None:
    stable_pair(kafka)
    assert audience.look("/group", group="billing")["state"] == "Stable"
    assert audience.look("/simulated-members") == []
    with audience.stream("/group/follow", group="billing") as stream:
        assert stream.next()["position"] == kafka.group("billing").events()[-1].position


def test_both_ports_act_on_the_same_emulator(kafka: Emulator, page: Control, control: Control) -> None:
    page.act("/topic/create", topic="made")
    assert "made" in [each["topic"] for each in control.look("/topics")]


def test_an_audience_that_waits_leaves_room_for_others(audience: Control, control: Control) -> None:
    with audience.stream("/group/follow", group="billing") as stream:
        stream.next()
        assert audience.look("/emulator")["waiting_requests"] == 1
        assert control.look("/emulator")["waiting_requests"] == 0


@pytest.mark.parametrize("path", LOOKS)
@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example"},
        {"host": "127.0.0.1.evil.example"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
    ],
    ids=str,
)
def test_a_foreign_page_reads_nothing(looked_at_page: Control, path: str, headers: dict[str, str]) -> None:
    assert looked_at_page.get(path, headers).status == 403


@pytest.mark.parametrize("headers", [{"host": "evil.example"}, {"origin": "http://evil.example"}], ids=str)
def test_a_foreign_page_does_not_act(kafka: Emulator, page: Control, headers: dict[str, str]) -> None:
    body = b'{"topic": "made"}'
    answer = page.send("POST", "/topic/create", body, {"content-type": "application/json", **headers})
    assert answer.status == 403
    assert "made" not in kafka.topics()


@pytest.mark.parametrize("path", LOOKS)
def test_everything_needs_the_token(start_control: StartControl, path: str) -> None:
    page = start_control(kind=PortKind.PAGE, token=TOKEN)
    assert page.get(path).status == 401
    assert page.get(path, {"authorization": "Bearer wrong"}).status == 401


@pytest.mark.parametrize("kind", [PortKind.PAGE, PortKind.PAGE_READ_ONLY])
def test_no_other_machine_sees_the_page_without_a_token(start_control: StartControl, kind: PortKind) -> None:
    with pytest.raises(InvalidSetting, match="needs a token: name a file with --page-token FILE"):
        start_control(kind=kind, host="0.0.0.0")
