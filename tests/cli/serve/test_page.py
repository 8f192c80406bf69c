"""`regroup serve --page` as a process: how it begins, what it refuses, how it ends with members and pages."""

import signal
import socket
from pathlib import Path

import pytest

from tests.cli.conftest import RunCommand
from tests.cli.serve.conftest import Start
from tests.clients.emulator import TIMEOUT_S
from tests.control.conftest import TOKEN, Control

NO_DELAY = ("--set", "group.initial.rebalance.delay.ms=0", "--topic", "orders:6")


def test_a_member_of_the_page_joins_a_group_of_the_store(start: Start, run_command: RunCommand, tmp_path: Path) -> None:
    with start("--page", "127.0.0.1:0", *NO_DELAY) as served:
        assert b"page/live.js" in served.page.get("/").body
        served.page.act("/simulated-member/add", group="billing", topics=["orders"], client_id="anna")
        (member,) = served.page.look("/group/wait-stable", group="billing", members=1, timeout_s=TIMEOUT_S)["members"]
        assert len(member["partitions"]) == 6
    assert "anna became the leader" in run_command("story", tmp_path / "groups.db").out


@pytest.mark.slow
def test_an_audience_beside_a_control_port(start: Start) -> None:
    with start("--page", "127.0.0.1:0", "--page-read-only", "--control", "127.0.0.1:0", lines=3) as served:
        assert [line.split()[0] for line in served.lines] == ["listening", "control", "page"]
        assert served.page.post("/topic/create", topic="made").status == 403
        served.control.act("/topic/create", topic="made")
        assert served.page.look("/topics") == [{"topic": "made", "partitions": 1}]


def test_an_end_waits_neither_for_members_nor_for_pages(start: Start) -> None:
    with start("--page", "127.0.0.1:0", *NO_DELAY) as served:
        for number in range(20):
            served.page.act("/simulated-member/add", group=f"group-{number % 3}", topics=["orders"])
        with served.page.stream("/group/follow", group="group-0") as stream:
            stream.next()
            served.process.send_signal(signal.SIGTERM)
            while stream.next() is not None:
                pass
            assert served.process.wait(TIMEOUT_S) == 0
        assert served.process.stderr
        assert "Traceback" not in served.process.stderr.read()


@pytest.mark.slow
def test_members_reach_brokers_whose_address_is_for_others(start: Start) -> None:
    """A container gives clients an address that leads nowhere inside of it."""
    with start("--host", "0.0.0.0", "--advertise", "broker.invalid:9092", "--page", "127.0.0.1:0", *NO_DELAY) as served:
        served.page.act("/simulated-member/add", group="billing", topics=["orders"])
        assert served.page.look("/group/wait-stable", group="billing", members=1, timeout_s=TIMEOUT_S)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["file", "environment"])
def test_other_machines_see_the_page_with_its_own_token(start: Start, tmp_path: Path, how: str) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    words = ["--page-token", str(tmp_path / "token")] if how == "file" else []
    environment = {"REGROUP_CONTROL_TOKEN": "another token, for control"}
    environment |= {} if how == "file" else {"REGROUP_PAGE_TOKEN": TOKEN}
    with start(
        "--page", "0.0.0.0:0", "--page-read-only", "--control", "127.0.0.1:0", *words, lines=3, **environment
    ) as served:
        page = Control("127.0.0.1", served.page.port)
        statuses = {
            given: page.get("/", {"authorization": f"Bearer {given}"}).status
            for given in (TOKEN, "another token, for control", "")
        }
        assert statuses == {TOKEN: 200, "another token, for control": 401, "": 401}
        assert page.get("/", {"authorization": f"Bearer {TOKEN}", "host": socket.gethostname()}).status == 200
        assert page.get("/", {"authorization": f"Bearer {TOKEN}", "host": "evil.example"}).status == 403
        assert served.control.get("/groups", {"authorization": f"Bearer {TOKEN}"}).status == 401


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--page", "0.0.0.0:0"], "needs a token: name a file with --page-token FILE, or set REGROUP_PAGE_TOKEN"),
        (["--page", "0.0.0.0:0", "--page-read-only"], "needs a token"),
        (["--page-token", "token"], "--page-token needs --page HOST:PORT."),
        (["--page-read-only"], "--page-read-only needs --page HOST:PORT."),
        (["--page", "127.0.0.1:9", "--control", "127.0.0.1:9"], "--page serves what --control serves"),
    ],
)
def test_what_cannot_be_served_is_refused(run_command: RunCommand, tmp_path: Path, words: list[str], text: str) -> None:
    code, out, error = run_command("serve", "--port", "0", "--store", tmp_path / "groups.db", *words)
    assert (code, out, len(error.splitlines()), text in error) == (2, "", 1, True), error
    assert not (tmp_path / "groups.db").exists()
