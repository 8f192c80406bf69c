"""The pytest plugin, in suites of its own: each runs in a process, as at a user's."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest


class Suite:
    """A folder with one test file, and the run of pytest over it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, test: str, *options: str) -> str:
        (self.folder / "test_suite.py").write_text(dedent(test), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-p", "regroup_pytest", "-p", "no:cacheprovider", *options]
        environment = {**os.environ, "PYTEST_ADDOPTS": "", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        environment.pop("PYTEST_XDIST_WORKER", None)
        done = subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=100, check=False
        )
        return done.stdout + done.stderr


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n", encoding="utf-8")
    return Suite(tmp_path)


def outcome(output: str) -> str:
    """`2 passed`, from the last line."""
    return ", ".join(re.findall(r"\d+ (?:passed|failed|errors?|skipped)", output.splitlines()[-1]))


def test_each_test_has_an_emulator_of_its_own_with_the_arguments_of_its_markers(suite: Suite) -> None:
    output = suite.run(
        """
        import pytest

        pytestmark = pytest.mark.kafka(topics={"orders": 6}, brokers=2)

        def test_one(kafka):
            assert kafka.topics() == {"orders": 6}
            assert len(kafka.bootstrap_servers.split(",")) == 2
            kafka.create_topic("left-over")

        @pytest.mark.kafka(topics={"orders": 1}, clock="manual")
        def test_two(kafka):
            assert kafka.topics() == {"orders": 1}
            assert len(kafka.bootstrap_servers.split(",")) == 2
            kafka.advance(45)
        """
    )
    assert outcome(output) == "2 passed", output


FAILING = """
    from regroup.protocol.messages.group import JoinGroupRequest, JoinGroupRequestProtocol

    def test_it(kafka):
        join = JoinGroupRequest(
            group_id="billing", session_timeout_ms=9000, rebalance_timeout_ms=9000, protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        kafka.connect("anna").send(join, 3)
        assert False, "as it is meant to"
    """


def command_with(word: str, output: str) -> str:
    """The command in the report that has this word."""
    found = re.search(rf"^ +(.* {word} .*)$", output, re.MULTILINE)
    assert found is not None
    return found[1]


def test_a_failure_tells_the_story_of_its_groups_and_names_the_history(suite: Suite) -> None:
    output = suite.run(FAILING)
    assert outcome(output) == "1 failed"
    assert "Kafka groups" in output
    assert "group 'billing':" in output
    assert re.search(r"generation-started .*anna-", output)
    assert re.search(r"anna +JoinGroup +NONE", output)
    command = command_with("story", output)
    shown = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, check=True)
    assert "Generation 1 started with anna" in shown.stdout


@pytest.mark.slow
def test_the_history_of_a_failure_can_be_seen_as_a_page(suite: Suite) -> None:
    pytest.importorskip("uvicorn", reason="a page needs starlette and uvicorn")
    command = command_with("view", suite.run(FAILING))
    with subprocess.Popen(f"exec {command}", shell=True, stdout=subprocess.PIPE, text=True) as served:
        assert served.stdout is not None
        assert served.stdout.readline().startswith("page  http://127.0.0.1:")
        served.send_signal(signal.SIGINT)
        assert served.wait(30) == 0


@pytest.mark.slow
@pytest.mark.parametrize(
    ("passes", "options", "code", "text"),
    [
        (False, (), 0, "anna  ApiVersions v0  NONE"),
        (True, (), 2, "no recorded exchanges"),
        (True, ("--kafka-record",), 0, "anna  ApiVersions v0  NONE"),
    ],
    ids=["failed", "passed", "--kafka-record"],
)
def test_the_history_of_a_failed_test_holds_the_requests_and_that_of_another_on_request(
    suite: Suite, tmp_path: Path, passes: bool, options: tuple[str, ...], code: int, text: str
) -> None:
    test = """
        from regroup.protocol.messages.cluster import ApiVersionsRequest

        def test_it(kafka):
            kafka.connect("anna").send(ApiVersionsRequest(), 0)
            assert {passes}, "as it is meant to"
        """
    suite.run(test.format(passes=passes), "--kafka-keep", str(tmp_path / "kept"), *options)
    (kept,) = (tmp_path / "kept").glob("*.db")
    command = [sys.executable, "-m", "regroup", "exchanges", str(kept)]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert shown.returncode == code
    assert text in shown.stdout + shown.stderr


def test_tests_that_share_an_emulator_are_told_apart(suite: Suite) -> None:
    output = suite.run(
        """
        from regroup.protocol.messages.offsets import *

        def commit(kafka):
            group = kafka.unique_name("billing")
            partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1)
            topic = OffsetCommitRequestTopic(name=kafka.unique_name("orders"), partitions=[partition])
            kafka.create_topic(topic.name)
            kafka.connect().send(OffsetCommitRequest(group_id=group, topics=[topic]), 7)
            assert kafka.groups()[-1] == group
            return group

        def test_one(kafka_session):
            assert commit(kafka_session) == "billing-1"

        def test_two(kafka_session):
            commit(kafka_session)
            assert False

        def test_three_without_an_emulator():
            assert False
        """
    )
    assert outcome(output) == "2 failed, 1 passed", output
    assert output.count("group 'billing-3':") == 1
    assert "group 'billing-1':" not in output
    assert output.count("- Kafka groups -") == 1


@pytest.mark.slow
def test_groups_that_a_fixture_touches_are_in_the_story_of_each_emulator(suite: Suite) -> None:
    output = suite.run(
        """
        import pytest

        def touch(kafka, group):
            kafka.create_topic("orders") if "orders" not in kafka.topics() else None
            connection = kafka.connect("anna")
            from regroup.protocol.messages.group import JoinGroupRequest, JoinGroupRequestProtocol
            connection.send(JoinGroupRequest(
                group_id=group, session_timeout_ms=9_000, rebalance_timeout_ms=9_000, protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
            ), 3)

        def test_before(kafka_session):
            touch(kafka_session, "earlier")

        @pytest.fixture
        def touched(kafka, kafka_session):
            touch(kafka_session, "shared")
            touch(kafka, "own")

        def test_it(touched):
            assert False

        @pytest.fixture
        def broken(kafka_session):
            touch(kafka_session, "in-setup")
            assert False

        def test_setup(broken): ...
        """
    )
    assert outcome(output) == "1 failed, 1 passed, 1 error", output
    for group in ("shared", "own", "in-setup"):
        assert f"group '{group}'" in output or f"{group}" in output.split("Kafka groups", 1)[1]
    assert output.count("Kafka groups") == 3
    assert "earlier" not in output.split("Kafka groups", 1)[1]


@pytest.mark.slow
def test_a_marker_for_the_shared_emulator_is_refused(suite: Suite) -> None:
    output = suite.run(
        """
        import pytest

        @pytest.mark.kafka(brokers=3)
        def test_it(kafka_session): ...
        """
    )
    assert "kafka_session takes none" in output


@pytest.mark.slow
def test_all_histories_are_kept_on_request(suite: Suite) -> None:
    output = suite.run(
        """
        import pytest

        @pytest.mark.parametrize("name", ["a/b", "a b", "c/b"])
        def test_it(kafka, name):
            kafka.create_topic("orders")
        """,
        "--kafka-keep=kept",
    )
    assert outcome(output) == "3 passed", output
    assert len(list((suite.folder / "kept").glob("*.db"))) == 3


@pytest.mark.slow
def test_it_works_with_xdist_asyncio_and_unittest(suite: Suite) -> None:
    output = suite.run(
        """
        import asyncio
        import unittest

        import pytest

        from regroup.testing import Emulator

        @pytest.fixture
        async def kafka_here():
            async with Emulator(topics={"orders": 2}) as kafka:
                yield kafka

        @pytest.mark.asyncio
        async def test_in_the_loop(kafka_here):
            assert await kafka_here.topics() == {"orders": 2}

        @pytest.mark.asyncio
        async def test_in_a_thread(kafka):
            assert await asyncio.to_thread(kafka.groups) == []

        class TestWithUnittest(unittest.TestCase):
            @pytest.fixture(autouse=True)
            def start(self, kafka):
                self.kafka = kafka

            def test_it(self):
                self.assertEqual(self.kafka.groups(), [])

        @pytest.mark.parametrize("number", range(4))
        def test_shared(kafka_session, number):
            kafka_session.create_topic(kafka_session.unique_name("orders"))
        """,
        "-p",
        "xdist",
        "-n2",
        "-p",
        "asyncio",
        "-o",
        "asyncio_mode=auto",
        "-o",
        "asyncio_default_fixture_loop_scope=function",
    )
    assert outcome(output) == "7 passed", output


@pytest.mark.slow
def test_caplog_has_the_log_of_the_brokers(suite: Suite) -> None:
    output = suite.run(
        """
        import logging

        def test_it(kafka, caplog):
            with caplog.at_level(logging.INFO, logger="regroup"):
                kafka.kill()
                kafka.restart()
                with kafka.connect() as connection:
                    connection._connection._transport.write(b"\\xff\\xff\\xff\\xff")
                    kafka.groups()
                    while not caplog.records:
                        kafka.groups()
            assert caplog.records[0].name == "regroup.connection"
        """
    )
    assert outcome(output) == "1 passed", output


@pytest.mark.quick("unexpected keyword")
@pytest.mark.parametrize(
    ("test", "text"),
    [
        ("@pytest.mark.kafka({'orders': 1})\ndef test_it(kafka): ...", "takes arguments by name"),
        ("@pytest.mark.kafka(topic={'orders': 1})\ndef test_it(kafka): ...", "unexpected keyword argument 'topic'"),
    ],
)
def test_a_wrong_marker_says_what_is_wrong(suite: Suite, test: str, text: str) -> None:
    assert text in suite.run(f"import pytest\n{test}")


@pytest.mark.slow
def test_a_failure_after_a_kill_still_has_its_report(suite: Suite) -> None:
    output = suite.run(
        """
        import pytest

        @pytest.mark.kafka(store="groups.db")
        def test_it(kafka):
            kafka.kill()
            assert False, "as it is meant to"
        """
    )
    assert outcome(output) == "1 failed"
    assert "as it is meant to" in output
    assert "the history is in groups.db" in output


def test_a_suite_that_asks_for_no_emulator_loads_nothing_of_regroup(suite: Suite) -> None:
    output = suite.run(
        """
        import sys

        def test_it():
            assert [name for name in sys.modules if name.startswith("regroup.") or name == "msgspec"] == []
        """
    )
    assert outcome(output) == "1 passed", output
