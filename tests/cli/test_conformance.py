"""`regroup conformance`: what can be typed, and what it says and writes."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from regroup.cli.main import main
from tests.conformance.peers import ROOMY
from tests.conformance.peers import regroup as our_own


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with our_own(ROOMY) as broker:
        yield broker.address


def test_an_area_is_told_behaviour_by_behaviour_and_written_as_json(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "report.json"
    assert main(["conformance", "--bootstrap", address, "--area", "heartbeat,list", "--json", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "pass           heartbeat.unknown-member: A stranger that beats is told that nobody knows it." in lines
    assert any(line.startswith("not observable heartbeat.loading: ") for line in lines)
    report = json.loads(file.read_text(encoding="utf-8"))
    assert {each["behaviour"].split(".")[0] for each in report["verdicts"]} == {"heartbeat", "list"}
    assert report["totals"]["fail"] == 0


def test_random_courses_are_compared_with_an_emulator_of_our_own(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "comparison.json"
    command = ["conformance", "--bootstrap", address, "--against", "emulator", "--seeds", "1-3", "--json", str(file)]
    assert main(command) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "     0 differ"
    found = json.loads(file.read_text(encoding="utf-8"))
    assert (found["courses"], found["differ"]) == (3, [])
    assert found["settings"]["group.initial.rebalance.delay.ms"] == "0"
    assert sum(found["requests"]["JoinGroup"].values()) > 20


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--bootstrap", "nowhere"], "'nowhere' is no address"),
        (
            ["--bootstrap", "127.0.0.1:1", "--area", "join,nonsense"],
            "'nonsense' is no area; there are join, sync",
        ),
        (["--bootstrap", "127.0.0.1:1", "--seeds", "9-1"], "two numbers"),
        (["--bootstrap", "127.0.0.1:1", "--set", "group.max.size=many"], "NAME=NUMBER"),
        (["--bootstrap", "127.0.0.1:1", "--at-once", "0"], "at least 1"),
        (["--bootstrap", "127.0.0.1:1", "--json", "/no/such/folder/report.json"], "cannot be written"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anybody_is_asked(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["conformance", *words])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--case", "join.nonsense"], "no story has this name"),
        (["--area", "join"], "say whom to examine"),
        (["--bootstrap", "127.0.0.1:1"], "nobody listens at 127.0.0.1:1"),
    ],
)
def test_where_nobody_can_be_asked_one_line_says_why(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["conformance", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_somebody_who_listens_and_never_answers_is_not_waited_for_for_ever(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("regroup.conformance.harness.target.KNOWN_WITHIN_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert main(["conformance", "--bootstrap", f"127.0.0.1:{port}"]) == 2
    assert "does not answer" in capsys.readouterr().err


def test_the_stories_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", "--list", "--area", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "2 list.both-filters: Two filters must both be passed." in lines
    assert any(line.startswith("- list.uncommitted-group-hidden: not observable, ") for line in lines)
