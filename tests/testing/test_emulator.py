"""Starting and stopping emulators: settings, stores, logs, loops, threads."""

import asyncio
import logging
import signal
import subprocess
import sys
import threading
import unittest
from collections.abc import Callable
from pathlib import Path

import confluent_kafka.admin
import pytest
import structlog

from regroup.coordinator.settings import InvalidSetting, UnknownSetting
from regroup.protocol.errors import ErrorCode
from regroup.protocol.messages.cluster import ApiVersionsRequest, MetadataRequest, MetadataRequestTopic
from regroup.server.history.verify_store import verify_store
from regroup.storage.errors import NotAStore
from regroup.storage.sqlite.threaded import open_store
from regroup.testing import ActRefused, AsyncEmulator, Emulator, EmulatorDown, ManualClockLoop, UnknownTopic
from tests.testing.conftest import ManualMember, stable_pair

StartEmulator = Callable[..., Emulator]


def test_starting_loads_nothing_that_only_a_terminal_or_a_file_needs() -> None:
    """Most of the time to the first response is imports."""
    program = """
import sys
from regroup.testing import Emulator
with Emulator(topics={"orders": 1}) as kafka:
    kafka.produce("orders", "one")
print(*sorted({name.split(".")[0] for name in sys.modules} & {"rich", "structlog", "aiosqlite", "aiomqtt", "pytest"}))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == []


def test_an_emulator_leaves_no_thread_and_no_port_behind() -> None:
    before = threading.active_count()
    with Emulator() as kafka:
        connection = kafka.connect()
        host, _, port = kafka.bootstrap_servers.partition(":")
    assert threading.active_count() == before
    with pytest.raises(EmulatorDown):
        kafka.groups()
    connection.close()
    with pytest.raises(EmulatorDown):
        connection.send(ApiVersionsRequest(), 0)
    with pytest.raises(OSError, match="onnect"):
        asyncio.run(asyncio.open_connection(host, int(port)))


def test_settings_are_kafkas_and_have_defaults_for_tests(emulator: StartEmulator) -> None:
    kafka = emulator(brokers=2, settings={"group.max.size": 7, "delete.topic.enable": False, "num.partitions": "3"})
    admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    resource = confluent_kafka.admin.ConfigResource(confluent_kafka.admin.ResourceType.BROKER, "0")
    (future,) = admin.describe_configs([resource]).values()
    shown = {name: entry.value for name, entry in future.result(30).items()}
    expected = {
        "group.max.size": "7",
        "delete.topic.enable": "false",
        "num.partitions": "3",
        "group.initial.rebalance.delay.ms": "0",
        "auto.create.topics.enable": "false",
    }
    assert {name: shown[name] for name in expected} == expected


def test_topics_are_created_on_demand_only_if_asked(emulator: StartEmulator) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="new")])
    codes = []
    for kafka in (emulator(), emulator(create_topics=True)):
        (topic,) = kafka.connect().send(request).topics
        codes.append(topic.error_code)
    assert codes == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.NONE]


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        ({"settings": {"group.max.sise": 1}}, UnknownSetting, "did you mean group.max.size"),
        ({"settings": {"group.max.size": 0}}, InvalidSetting, "at least 1"),
        ({"topics": {"a/b": 1}}, InvalidSetting, "a/b"),
        ({"topics": {"a": 0}}, InvalidSetting, "1 to 10000 partitions, not 0"),
        ({"brokers": 0}, ValueError, "invalid number of brokers: 0"),
        ({"clock": "fast"}, ValueError, "'real' or 'manual'"),
    ],
)
def test_bad_options_are_refused_before_anything_starts(options, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        Emulator(**options)


def test_a_store_that_cannot_be_opened_leaves_nothing_running(tmp_path: Path) -> None:
    (tmp_path / "no.db").write_text("no store")
    before = threading.active_count()
    with pytest.raises(NotAStore):
        Emulator(store=tmp_path / "no.db").start()
    assert threading.active_count() == before


def test_a_store_in_a_file_continues_in_the_next_emulator(tmp_path: Path) -> None:
    with Emulator(topics={"orders": 2}, store=tmp_path / "store.db") as kafka:
        stable_pair(kafka)
    with Emulator(topics={"orders": 2}, store=tmp_path / "store.db") as kafka:
        assert len(kafka.group("billing").now().members) == 2


def test_a_saved_history_is_a_valid_store(emulator: StartEmulator, tmp_path: Path) -> None:
    kafka = emulator(topics={"orders": 2})
    stable_pair(kafka)
    kafka.group("billing").expire("second")
    kafka.save(tmp_path / "saved.db")
    with pytest.raises(FileExistsError):
        kafka.save(tmp_path / "saved.db")

    async def verify():
        async with await open_store(tmp_path / "saved.db", read_only=True) as store:
            return await verify_store(store), store.last_position

    verification, last_position = asyncio.run(verify())
    assert (verification.violations, last_position > 10) == ([], True)


# Log


def test_the_log_goes_through_logging(emulator: StartEmulator, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "regroup"):
        kafka = emulator(topics={"orders": 2})
        stable_pair(kafka)
        kafka.group("billing").expire("second")
    lines = [record.getMessage() for record in caplog.records if record.name == "regroup.coordinator"]
    assert any(line.startswith("member-removed group=billing member_id=second-") for line in lines)


def test_structlog_gets_no_line_of_an_emulator(emulator: StartEmulator) -> None:
    before = structlog.get_config()
    with structlog.testing.capture_logs() as lines:
        stable_pair(emulator(topics={"orders": 2}))
    assert lines == []
    assert structlog.get_config() == before


# Loops


async def test_the_emulator_runs_in_the_loop_of_its_caller() -> None:
    before = threading.active_count()
    async with Emulator(topics={"orders": 1}) as kafka:
        assert isinstance(kafka, AsyncEmulator)
        assert threading.active_count() == before
        connection = await kafka.connect()
        response = await connection.send(MetadataRequest(topics=None))
        assert [topic.name for topic in response.topics if not topic.is_internal] == ["orders"]
        async with kafka.loading("billing"):
            assert (await kafka.group("billing").now()).state == "Dead"


async def test_a_blocking_emulator_serves_a_coroutine_too(emulator: StartEmulator) -> None:
    kafka = emulator()
    host, _, port = kafka.bootstrap_servers.partition(":")
    _, writer = await asyncio.open_connection(host, int(port))
    writer.close()
    await writer.wait_closed()


async def test_a_manual_clock_needs_a_loop_of_its_own() -> None:
    with pytest.raises(ActRefused, match=r"needs a loop of its own: use `with Emulator"):
        async with Emulator(clock="manual"):
            pass


def test_a_manual_clock_works_in_a_loop_that_has_one() -> None:
    async def main() -> int:
        async with Emulator(clock="manual") as kafka:
            before_ms = kafka.now_ms()
            await kafka.advance(45)
            return kafka.now_ms() - before_ms

    with asyncio.Runner(loop_factory=ManualClockLoop) as runner:
        assert runner.run(main()) == 45_000


@pytest.mark.usefixtures("default_sigint")
def test_an_interrupted_wait_leaves_the_emulator_working(emulator: StartEmulator) -> None:
    kafka = emulator()
    main = threading.main_thread().ident
    assert main is not None
    threading.Timer(0.05, signal.pthread_kill, (main, signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        kafka.group("billing").wait_until_stable(timeout_s=30)
    assert kafka.groups() == []


class UnittestUse(unittest.TestCase):
    """An emulator in unittest's own way."""

    def setUp(self) -> None:
        self.kafka = self.enterContext(Emulator(topics={"orders": 2}))

    def test_each_test_has_its_own_emulator(self) -> None:
        assert self.kafka.groups() == []
        ManualMember(self.kafka, "anna").join()
        assert self.kafka.groups() == ["billing"]

    def test_nothing_is_left_of_another_test(self) -> None:
        assert self.kafka.groups() == []


class AsyncUnittestUse(unittest.IsolatedAsyncioTestCase):
    """The same with coroutines."""

    async def test_an_emulator_in_the_loop_of_the_test(self) -> None:
        kafka = await self.enterAsyncContext(Emulator(topics={"orders": 2}))
        assert await kafka.topics() == {"orders": 2}


# Topics


def test_topics_are_made_grown_and_deleted(emulator: StartEmulator) -> None:
    kafka = emulator(topics={"orders": 2})
    kafka.create_topic("invoices", 3)
    kafka.add_partitions("orders", 4)
    assert kafka.topics() == {"orders": 4, "invoices": 3}
    kafka.delete_topic("invoices")
    assert kafka.topics() == {"orders": 4}


def test_impossible_acts_on_topics_say_why(emulator: StartEmulator) -> None:
    kafka = emulator(topics={"orders": 2})
    for act, error, text in (
        (lambda: kafka.create_topic("orders"), ActRefused, "topic 'orders' exists already"),
        (lambda: kafka.create_topic("a/b"), ActRefused, "a/b"),
        (lambda: kafka.create_topic("new", 0), InvalidSetting, "not 0"),
        (lambda: kafka.add_partitions("orders", 2), ActRefused, "2 are no more"),
        (lambda: kafka.add_partitions("new", 2), UnknownTopic, "unknown topic 'new'; topics: "),
        (lambda: kafka.delete_topic("new"), UnknownTopic, "unknown topic 'new'"),
        (lambda: kafka.produce("orders", "x", partition=2), UnknownTopic, "partitions 0 to 1, not 2"),
        (lambda: kafka.records("orders", 9), UnknownTopic, "not 9"),
    ):
        with pytest.raises(error, match=text):
            act()
