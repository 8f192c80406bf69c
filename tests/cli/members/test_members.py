"""`regroup members`: its arguments, its output, and its exit codes."""

import argparse
import asyncio
import re
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from io import StringIO

import pytest
from rich.console import Console

from regroup.cli.jobs import CannotRun
from regroup.cli.members.arguments import add_arguments
from regroup.cli.members.command import run_members
from regroup.cli.members.fleet import MemberFleet, plan_fleet
from regroup.cli.members.table import members_table
from regroup.coordinator.group import GroupState
from regroup.coordinator.settings import CoordinatorSettings
from regroup.lab.simulation.virtual_clock import VirtualLoop, run_in_virtual_time
from regroup.members.consumer.state import MemberState
from regroup.members.faults import MemberFault, MemberFaultKind
from regroup.members.runtime.application import FetchedRecord, MemberView, SimulatedApplication
from regroup.members.runtime.member import SimulatedMember
from regroup.members.runtime.workload import RecordCounts
from regroup.notation.partitions import format_partitions
from regroup.protocol.consumer.subscription import TopicPartition
from regroup.server.broker_cluster import BrokerCluster, ClusterOptions
from regroup.storage.memory import MemoryStore
from tests.cli.conftest import RunCommand

NEEDED = ["--bootstrap", "localhost:9092", "--group", "payments", "--topic", "orders"]


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="regroup members")
    add_arguments(parser)
    return parser.parse_args([*NEEDED, *words])


def test_faults_are_for_one_member_or_for_all() -> None:
    faults = parsed("--fault", "2:pause:20s", "--fault", "all:crash").faults
    assert faults == [(2, MemberFault(MemberFaultKind.PAUSE, 20_000)), (None, MemberFault(MemberFaultKind.CRASH))]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--fault", "pause:20s"], "write for example 2:pause:20s or all:slow-join:5s"),
        (["--fault", "2:sleep"], "unknown fault 'sleep'"),
        (["--assignor", "cleverest"], "unknown assignor 'cleverest'"),
        (["--bootstrap", "localhost"], "write HOST:PORT"),
        (["--for", "long"], "invalid duration"),
        (["--count", "0"], "give a whole number of at least 1"),
        (["--topic-pattern", "x"], "not allowed with argument"),
    ],
)
def test_an_invalid_argument_is_explained(words: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed(*words)
    assert ended.value.code == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--fault", "9:crash"], "is for member 9, and there are 3 members"),
        (["--heartbeat-interval", "1m"], "--heartbeat-interval (1m) must be shorter than --session-timeout (45s)"),
        (["--fault", "all:slow-revoke:5s"], "is a fault of the consumer protocol: add --group-protocol consumer"),
        (
            ["--group-protocol", "consumer", "--fault", "2:never-sync"],
            "never-sync is a fault of the classic protocol; these members speak the consumer protocol",
        ),
        (
            ["--group-protocol", "consumer", "--assignor", "range"],
            "--assignor is for the classic protocol; --remote-assignor names one of the coordinator's",
        ),
        (
            ["--remote-assignor", "range"],
            "--remote-assignor is for the consumer protocol: add --group-protocol consumer",
        ),
        (
            ["--group-protocol", "consumer", "--session-timeout", "6s"],
            "--session-timeout is for the classic protocol; in the consumer protocol the broker has "
            "group.consumer.session.timeout.ms",
        ),
        (["--records-per-s", "-1"], "records_per_s must be at least 0, not -1"),
        (["--records-per-s", "inf"], "records_per_s must be a finite number, not inf"),
    ],
)
def test_contradictory_arguments_end_with_2(words: list[str], says: str, run_command: RunCommand) -> None:
    code, _, err = run_command("members", *NEEDED, *words)
    assert (code, says in err) == (2, True)


def test_a_member_whose_start_is_due_after_the_fleet_was_closed_does_not_start(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    monkeypatch.setattr(SimulatedMember, "start", lambda member: started.append(member.name))

    async def story() -> None:
        fleet = MemberFleet(plan_fleet(parsed("--count", "2", "--every", "20s")), Console(file=StringIO()), epoch_ms=0)
        fleet.start()
        await asyncio.sleep(10)
        await fleet.close()
        await asyncio.sleep(60)

    run_in_virtual_time(story(), VirtualLoop())
    assert started == ["1"]


def test_consecutive_partitions_are_formatted_as_ranges() -> None:
    partitions = [TopicPartition("orders", number) for number in (7, 0, 1, 2)] + [TopicPartition("clicks", 4)]
    assert format_partitions(partitions) == "orders 0-2,7; clicks 4"


def test_the_table_has_a_row_for_each_member_and_counts_the_records() -> None:
    held = (TopicPartition("orders", 0),)
    well = MemberView("1", "regroup-1-abcdefgh", 3, MemberState.STABLE, True, held, "", "", 40, 2)
    gone = MemberView("2", "", -1, MemberState.UNJOINED, False, (), "crashed", "no response in time", 0, 0)
    console = Console(width=80, file=StringIO())
    console.print(members_table([well, gone], RecordCounts(40, 2, 1, 0)))
    text = str(console.file.getvalue())  # type: ignore[attr-defined]  # it is the StringIO above
    assert "…" not in text, "80 columns are enough"
    text += " ".join(text.split())
    for expected in ("stable (leader)", "orders 0", "crashed", "no response in", "2 twice, 1 late"):
        assert expected in text


def test_the_cells_of_the_table_hold_no_control_characters() -> None:
    held = (TopicPartition("\x1b[2J", 0),)
    view = MemberView("1", "c-\x1b[31m", 3, MemberState.STABLE, True, held, "", "[red]hung\x07 up", 0, 0)
    console = Console(width=160, file=StringIO())
    console.print(members_table([view], RecordCounts()))
    assert isinstance(console.file, StringIO)
    text = console.file.getvalue()
    assert text.replace("\n", "").isprintable()
    for expected in (r"\x1b[2J 0", r"[red]hung\x07 up"):
        assert expected in text


def test_members_without_a_broker_end_with_1_and_name_its_address(run_command: RunCommand) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    words = ["--bootstrap", f"127.0.0.1:{port}", "--for", "500ms", "--count", "1"]
    code, _, err = run_command("members", *NEEDED[2:], *words)
    assert code == 1
    assert f"no member joined the group: 127.0.0.1:{port} cannot be reached" in err


def test_members_join_work_and_leave(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The assignor is eager: a member that reads on during a cooperative rebalance may read records twice."""
    shown, batches = "", []

    def counted(application: SimulatedApplication, records: Sequence[FetchedRecord], now_ms: int) -> None:
        batches.append(len(records))
        worked(application, records, now_ms)

    worked = SimulatedApplication.complete_batch
    monkeypatch.setattr(SimulatedApplication, "complete_batch", counted)

    async def stop_once_both_work(stop: asyncio.Event) -> None:
        nonlocal shown
        while "member 2 was assigned orders" not in shown or not batches:
            await asyncio.sleep(0.05)
            shown += capsys.readouterr().out
        stop.set()

    async def story() -> int:
        options = ClusterOptions(settings=CoordinatorSettings(group_initial_rebalance_delay_ms=0))
        emulator = await BrokerCluster.start(options=options)
        await emulator.ensure_topic("orders", 4)
        host, port = emulator.address
        words = ["--bootstrap", f"{host}:{port}", "--count", "2", "--every", "300ms", "--records-per-s", "100"]
        words += ["--heartbeat-interval", "100ms", "--assignor", "range", "--from", "earliest"]
        stop = asyncio.Event()
        code, _ = await asyncio.gather(run_members(plan_fleet(parsed(*words)), stop), stop_once_both_work(stop))
        await emulator.close()
        return code

    assert asyncio.run(story()) == 0
    shown += capsys.readouterr().out
    assert "member 1 joined generation" in shown
    assert "records written, 0 refused" in shown
    assert re.search(rf"{sum(batches)} records processed: 0 twice, \d+ late, 0 skipped", shown)


async def test_a_zombie_and_its_refused_commits_are_lines(capsys: pytest.CaptureFixture[str]) -> None:
    settings = CoordinatorSettings(group_initial_rebalance_delay_ms=0, group_min_session_timeout_ms=100)
    async with await BrokerCluster.start(options=ClusterOptions(settings=settings)) as cluster:
        await cluster.ensure_topic("orders", 2)
        words = [
            "--bootstrap",
            "{}:{}".format(*cluster.address),
            "--count",
            "1",
            "--fault",
            "1:zombie@after-assigned+500ms",
        ]
        words += ["--session-timeout", "1s", "--heartbeat-interval", "100ms", "--from", "earliest"]
        words += ["--records-per-s", "20"]
        stop, lines = asyncio.Event(), ""

        async def stop_once_refused() -> None:
            nonlocal lines
            while "its OffsetCommit was answered" not in lines:
                await asyncio.sleep(0.05)
                lines += capsys.readouterr().out
            stop.set()

        async with asyncio.timeout(30):
            await asyncio.gather(run_members(plan_fleet(parsed(*words)), stop), stop_once_refused())
    assert "member 1 falls silent for twice its session timeout" in lines
    assert "member 1 wakes as a zombie: it reads and commits for its old generation" in lines
    assert "member 1 was refused: its OffsetCommit was answered UNKNOWN_MEMBER_ID" in lines


@asynccontextmanager
async def foreign_cluster() -> AsyncIterator[BrokerCluster]:
    """A cluster with a cluster id as that of a real Kafka."""
    store = MemoryStore()
    await store.put_value("cluster-id", b"5L6g3nShT-eMCtK--X86sw")
    options = ClusterOptions(settings=CoordinatorSettings(group_initial_rebalance_delay_ms=0))
    async with await BrokerCluster.start(store.open, options) as cluster:
        await cluster.ensure_topic("orders", 2)
        yield cluster


async def run_for_a_moment(cluster: BrokerCluster, *words: str, group: str = "payments") -> int:
    needed = ["--bootstrap", "{}:{}".format(*cluster.address), "--group", group, "--topic", "orders", "--count", "1"]
    parser = argparse.ArgumentParser(prog="regroup members")
    add_arguments(parser)
    stop = asyncio.Event()
    plan = plan_fleet(parser.parse_args([*needed, *words]))
    running = asyncio.create_task(run_members(plan, stop))
    async with asyncio.timeout(20):
        while not running.done():
            if any(each.state is GroupState.STABLE and each.group_id == group for each in cluster.groups()):
                break
            await asyncio.sleep(0.02)
        stop.set()
        return await running


async def test_in_a_cluster_that_is_not_regroups_an_existing_group_needs_consent() -> None:
    async with foreign_cluster() as cluster:
        assert await run_for_a_moment(cluster) == 0, "a new group needs none"
        with pytest.raises(CannotRun) as refused:
            await run_for_a_moment(cluster)
        text = str(refused.value)
        assert "this cluster (5L6g3nShT-eMCtK--X86sw) is not regroup's" in text
        assert "join the existing group payments, which is Empty with 0 classic members: take partitions" in text
        assert "add --yes" in text
        assert await run_for_a_moment(cluster, "--yes") == 0


async def test_in_a_cluster_that_is_not_regroups_written_records_need_consent() -> None:
    async with foreign_cluster() as cluster:
        with pytest.raises(CannotRun, match="would write records to orders"):
            await run_for_a_moment(cluster, "--records-per-s", "1", group="new")
        assert not list(cluster.groups())


async def test_a_topic_that_does_not_exist_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    options = ClusterOptions(settings=CoordinatorSettings(group_initial_rebalance_delay_ms=0))
    async with await BrokerCluster.start(options=options) as cluster:
        await run_for_a_moment(cluster, group="g")
    assert "there is no topic orders yet; the broker makes it" in capsys.readouterr().err


async def test_a_cluster_of_regroup_is_known_by_its_cluster_id() -> None:
    async with await BrokerCluster.start() as cluster:
        assert cluster.state.cluster_id.startswith("regroup-")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_static_member_that_is_closed_stays(protocol: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = await shown_until(r"member 1 was assigned", capsys, "--group-protocol", protocol, "--static")
    assert shown.rstrip().endswith("closed its consumer; it is static, and stays a member until its session ends")
    assert "left" not in shown


async def test_a_static_member_whose_former_process_still_has_its_id_does_not_leave(
    capsys: pytest.CaptureFixture[str],
) -> None:
    restart = ("--group-protocol", "consumer", "--static", "--fault", "1:restart:10ms@after-assigned")
    shown = await shown_until("answered UNRELEASED_INSTANCE_ID", capsys, *restart)
    after = shown.partition("starts again as a new process")[2]
    assert "closed its consumer before it had joined" in after
    assert "left" not in after
    assert "revoked" not in after


async def shown_until(text: str, capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a member in a group of its own shows, which is asked to stop once it has shown `text`."""
    async with await BrokerCluster.start(options=ClusterOptions()) as emulator:
        await emulator.ensure_topic("orders", 4)
        host, port = emulator.address
        stop, shown = asyncio.Event(), ""
        plan = plan_fleet(parsed("--bootstrap", f"{host}:{port}", "--count", "1", *words))
        members = asyncio.create_task(run_members(plan, stop))
        async with asyncio.timeout(30):
            while text not in shown:
                await asyncio.sleep(0.01)
                shown += capsys.readouterr().out
        stop.set()
        await members
        return shown + capsys.readouterr().out


async def test_members_of_the_consumer_protocol_join_and_leave(capsys: pytest.CaptureFixture[str]) -> None:
    emulator = await BrokerCluster.start(options=ClusterOptions())
    await emulator.ensure_topic("orders", 4)
    host, port = emulator.address
    stop, shown = asyncio.Event(), ""
    words = ["--bootstrap", f"{host}:{port}", "--count", "2", "--group-protocol", "consumer", "--static"]
    words += ["--remote-assignor", "range"]
    members = asyncio.create_task(run_members(plan_fleet(parsed(*words)), stop))
    async with asyncio.timeout(30):
        while not all(f"member {number} joined generation" in shown for number in (1, 2)):
            await asyncio.sleep(0.01)
            shown += capsys.readouterr().out
        group = emulator.coordinator_of("payments").group("payments")
        stop.set()
        assert await members == 0
    assert group.consumer is not None
    assert sorted(group.consumer.static_members) == ["payments-1", "payments-2"]
    assert {each.profile.server_assignor for each in group.consumer.members.values()} == {"range"}
    after = emulator.coordinator_of("payments").group("payments")
    assert after.consumer is not None
    assert {member.epoch for member in after.consumer.members.values()} == {-2}, "they are expected to return"
    await emulator.close()
