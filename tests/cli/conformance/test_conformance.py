"""`regroup conformance`: its arguments, its output, and its reports."""

import json
import socket
from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path

import pytest

from regroup.cli.conformance.arguments import AREAS, add_arguments
from regroup.cli.main import main
from regroup.conformance.differential.differential_run import DEFAULT_COURSES_AT_ONCE
from regroup.conformance.differential.timing import DEFAULT_SLOT_MS
from regroup.conformance.run.runner import DEFAULT_STORIES_AT_ONCE, StoryRunOptions
from regroup.conformance.stories import CASES
from tests.conformance.peers import FAST_SETTINGS
from tests.conformance.peers import regroup_broker as our_own


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with our_own(FAST_SETTINGS) as broker:
        yield broker.address


def test_the_areas_and_defaults_in_the_help_are_those_of_the_stories() -> None:
    assert tuple(dict.fromkeys(each.area for each in CASES.values())) == AREAS
    parser = ArgumentParser()
    add_arguments(parser)
    args = parser.parse_args([])
    assert (args.at_once, args.courses, args.slot) == (
        DEFAULT_STORIES_AT_ONCE,
        DEFAULT_COURSES_AT_ONCE,
        DEFAULT_SLOT_MS,
    )
    assert args.longest == StoryRunOptions("").max_case_timeout_s


def test_an_area_is_reported_behaviour_by_behaviour_and_written_as_json(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "report.json"
    assert main(["conformance", "--bootstrap", address, "--area", "heartbeat,list", "--json", str(file)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "pass           heartbeat.unknown-member: A heartbeat with an unknown member id is refused." in lines
    assert any(line.startswith("not observable heartbeat.loading: ") for line in lines)
    report = json.loads(file.read_text(encoding="utf-8"))
    assert {each["behaviour"].split(".")[0] for each in report["verdicts"]} == {"heartbeat", "list"}
    assert report["totals"]["fail"] == 0


@pytest.mark.slow
def test_random_courses_are_compared_with_an_emulator_of_our_own(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "comparison.json"
    command = ["conformance", "--bootstrap", address, "--against", "emulator", "--seeds", "1-3", "--json", str(file)]
    assert main(command) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "     0 differ"
    (joins,) = [line.split() for line in lines if line.startswith("JoinGroup ")]
    assert int(joins[1]) >= int(joins[2]) > 10
    found = json.loads(file.read_text(encoding="utf-8"))
    assert (found["courses"], found["differ"]) == (3, [])
    assert found["settings"]["group.initial.rebalance.delay.ms"] == "0"
    assert sum(each["answered"] for each in found["requests"]["JoinGroup"].values()) == int(joins[2])
    assert {int(seed) for seed in found["requests_by_seed"]} == {1, 2, 3}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--bootstrap", "nowhere"], "invalid address: 'nowhere'; write HOST:PORT"),
        (
            ["--bootstrap", "127.0.0.1:1", "--area", "join,nonsense"],
            "unknown area: 'nonsense'; use join, sync",
        ),
        (["--bootstrap", "127.0.0.1:1", "--seeds", "9-1"], "invalid seeds: '9-1'"),
        (["--bootstrap", "127.0.0.1:1", "--set", "group.max.size=many"], "NAME=NUMBER"),
        (["--bootstrap", "127.0.0.1:1", "--at-once", "0"], "at least 1"),
        (["--bootstrap", "127.0.0.1:1", "--json", "/no/such/folder/report.json"], "cannot write to"),
    ],
)
def test_an_invalid_argument_is_refused_before_any_request(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["conformance", *words])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--case", "join.nonsense"], "unknown story: join.nonsense"),
        (["--area", "join"], "name the broker to test"),
        (["--bootstrap", "127.0.0.1:1"], "no broker listens at 127.0.0.1:1"),
    ],
)
def test_one_line_explains_why_nothing_was_tested(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["conformance", *words]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


@pytest.mark.quick("group.max.size")
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"group.initial.rebalance.delay.ms": "600"}, "whatever the time between moves"),
        ({"group.max.size": "1"}, "nearly every JoinGroup would be refused"),
    ],
    ids=str,
)
def test_settings_with_which_random_courses_test_nothing_are_refused_in_one_line(
    settings: dict[str, str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with our_own(settings) as broker:
        assert main(["conformance", "--bootstrap", broker.address, "--against", "emulator"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_a_broker_that_does_not_respond_is_given_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("regroup.conformance.harness.broker_under_test.DISCOVERY_TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert main(["conformance", "--bootstrap", f"127.0.0.1:{port}"]) == 2
    assert "does not answer" in capsys.readouterr().err


def test_the_stories_can_be_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", "--list", "--area", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "2 list.both-filters: State filter and type filter must both match." in lines
    assert any(line.startswith("- list.uncommitted-group-hidden: not observable, ") for line in lines)


def test_what_was_not_observable_is_listed_with_a_command_that_shows_it(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cases = "limits.static-members,timeout.new-member.five-minutes,recovery.stable-group,validation.not-coordinator"
    assert main(["conformance", "--bootstrap", address, "--brief", "--case", cases]) == 0
    lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
    assert "1  needs a broker with group.initial.rebalance.delay.ms=1000 and group.max.size=11; then:" in lines
    assert "1  needs a cluster of 2 brokers; then:" in lines
    commands = [line.removeprefix("regroup ") for line in lines if line.startswith("regroup ")]
    assert f"conformance --bootstrap {address} --longest 330 --case timeout.new-member.five-minutes" in commands
    assert f"conformance --bootstrap {address} --restart COMMAND --case recovery.stable-group" in commands
    parser = ArgumentParser()
    add_arguments(parser)
    parsed = [parser.parse_args(command.replace("HOST:PORT", address).split()[1:]).case for command in commands]
    assert sorted(case for cases in parsed for case in cases) == sorted(cases.split(","))
