"""The disk fills up under a running `regroup serve`, and has room again later."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from regroup.protocol.errors import ErrorCode as E
from tests.clients.emulator import EmulatorProcess, eventually, regroup
from tests.clients.processes import Serve
from tests.fire.member import GROUP, Member, living, missing, until


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of four megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if (
        os.geteuid() != 0
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("only root may mount a small disk")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture
def emulator(small_disk: Path, serve: Serve) -> EmulatorProcess:
    return serve("--topic", "orders:4", name="disk/groups")


def fill(disk: Path) -> Path:
    """Take all the room that is left."""
    rest = disk / "rest"
    with rest.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    return rest


async def test_while_the_disk_is_full_members_wait_and_nothing_that_was_acknowledged_is_lost(
    emulator: EmulatorProcess, small_disk: Path
) -> None:
    members = [Member(f"member-{n}", emulator.address, partition=n, session_timeout_ms=20_000) for n in range(3)]
    newcomer = Member("newcomer", emulator.address, partition=3, session_timeout_ms=20_000)
    async with living(*members):
        await until(lambda: all(each.committed > 5 and len(each.share) for each in members), "a group that works")
        rest = fill(small_disk)
        await until(lambda: "store-still-fails" in emulator.log, "the failure")
        for each in members:
            each.codes.clear()
        beats = [each.heartbeats for each in members]
        async with living(newcomer):
            await until(lambda: newcomer.codes.count(E.COORDINATOR_LOAD_IN_PROGRESS) > 3, "refused joins")
            await until(lambda: all(x.heartbeats > n + 3 for x, n in zip(members, beats, strict=True)), "heartbeats")
            assert {code for each in members for code in each.codes} == {E.NONE, E.COORDINATOR_LOAD_IN_PROGRESS}
            assert not newcomer.acknowledged
            rest.unlink()
            before = [each.committed for each in members]
            await until(lambda: all(x.committed > n + 3 for x, n in zip(members, before, strict=True)), "their commits")
            await until(lambda: newcomer.committed > 3, "the newcomer's")
    everybody = [*members, newcomer]
    assert not [lost for each in everybody for lost in missing(each.acknowledged, emulator.events(GROUP))]
    assert "store-reopened" in emulator.log
    assert "Traceback" not in emulator.log
    assert emulator.terminate() == 0
    assert regroup("verify", emulator.store).returncode == 0


def is_waited_for(member: Member, emulator: EmulatorProcess) -> bool:
    """Its JoinGroup is in the store, and so it is parked."""
    return member.id in [each["member"] for each in emulator.events(member.group, kind="member-joined")]


async def test_a_join_that_waits_when_the_disk_fills_up_is_sent_elsewhere(
    emulator: EmulatorProcess, small_disk: Path
) -> None:
    """The parked JoinGroup gets NOT_COORDINATOR, so that its client looks for the coordinator anew."""
    silent = Member("silent", emulator.address, session_timeout_ms=20_000)
    async with living(silent):
        await until(lambda: silent.committed, "the first member")
    parked = Member("parked", emulator.address, partition=1, session_timeout_ms=20_000)
    writer = Member("writer", emulator.address, group="writing", partition=2, session_timeout_ms=20_000)
    async with living(parked, writer):
        await until(lambda: writer.committed and is_waited_for(parked, emulator), "a join behind the silent member")
        rest = fill(small_disk)
        await until(lambda: E.NOT_COORDINATOR in parked.codes, "the answer to the parked join")
        rest.unlink()
        await until(lambda: "store-reopened" in emulator.log, "the repair")


async def test_a_server_whose_disk_is_full_can_be_stopped(emulator: EmulatorProcess, small_disk: Path) -> None:
    member = Member("member", emulator.address, session_timeout_ms=20_000)
    async with living(member):
        await until(lambda: member.committed, "a group that works")
        fill(small_disk)
        await until(lambda: "store-still-fails" in emulator.log, "the failure")
    assert emulator.terminate() == 0
    assert "Traceback" not in emulator.log
    assert regroup("verify", emulator.store).returncode == 0


def test_a_disk_that_is_full_at_the_start_is_named_and_nothing_is_spoilt(
    emulator: EmulatorProcess, small_disk: Path
) -> None:
    assert emulator.terminate() == 0
    before = emulator.store.read_bytes()
    rest = fill(small_disk)
    refused = regroup("serve", "--port", "0", "--store", emulator.store)
    assert refused.returncode == 2
    assert "free some disk space" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert emulator.store.read_bytes() == before
    assert regroup("verify", emulator.store).returncode == 0
    rest.unlink()
    emulator.start()
    eventually(lambda: emulator.events(None, kind="topic-created"), "the topic of before")


def test_a_disk_that_may_only_be_read_is_named(emulator: EmulatorProcess, small_disk: Path) -> None:
    assert emulator.terminate() == 0
    before = emulator.store.read_bytes()
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    refused = regroup("serve", "--port", "0", "--store", emulator.store)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "Read-only file system" in refused.stderr
    assert regroup("verify", emulator.store).returncode == 0
    assert emulator.store.read_bytes() == before
