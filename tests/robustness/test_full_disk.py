"""The disk fills up while `regroup serve` runs, and has free space again later."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from regroup.protocol.errors import ErrorCode as E
from tests.clients.emulator import EmulatorProcess, eventually, run_regroup
from tests.clients.processes import Serve
from tests.robustness.member import GROUP, RetryingMember, missing, running, wait_until


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
    """Write a file that takes all free space, and return its path."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    return filler


async def test_members_wait_while_the_disk_is_full_and_no_acknowledged_event_is_lost(
    emulator: EmulatorProcess, small_disk: Path
) -> None:
    members = [
        RetryingMember(f"member-{n}", emulator.address, partition=n, session_timeout_ms=20_000) for n in range(3)
    ]
    joining = RetryingMember("joining", emulator.address, partition=3, session_timeout_ms=20_000)
    async with running(*members):
        await wait_until(lambda: all(each.committed > 5 and len(each.assignment) for each in members), "a stable group")
        filler = fill(small_disk)
        await wait_until(lambda: "store-still-fails" in emulator.log, "the failure")
        for each in members:
            each.codes.clear()
        heartbeats = [each.heartbeats for each in members]
        async with running(joining):
            await wait_until(lambda: joining.codes.count(E.COORDINATOR_LOAD_IN_PROGRESS) > 3, "refused joins")
            await wait_until(
                lambda: all(x.heartbeats > n + 3 for x, n in zip(members, heartbeats, strict=True)), "heartbeats"
            )
            assert {code for each in members for code in each.codes} == {E.NONE, E.COORDINATOR_LOAD_IN_PROGRESS}
            assert not joining.acknowledged
            filler.unlink()
            before = [each.committed for each in members]
            await wait_until(
                lambda: all(x.committed > n + 3 for x, n in zip(members, before, strict=True)), "their commits"
            )
            await wait_until(lambda: joining.committed > 3, "commits of the joining member")
    events = emulator.events(GROUP)
    assert not [event for each in (*members, joining) for event in missing(each.acknowledged, events)]
    assert "store-reopened" in emulator.log
    assert "Traceback" not in emulator.log
    assert emulator.terminate() == 0
    assert run_regroup("verify", emulator.store).returncode == 0


def join_is_held(member: RetryingMember, emulator: EmulatorProcess) -> bool:
    """The member's JoinGroup has led to an event, so its response is held."""
    return member.id in [each["member_id"] for each in emulator.events(member.group, kind="member-joined")]


@pytest.mark.slow
async def test_a_join_that_is_held_when_the_disk_fills_up_gets_not_coordinator(
    emulator: EmulatorProcess, small_disk: Path
) -> None:
    """The client then looks for the coordinator again."""
    stable = RetryingMember("stable", emulator.address, session_timeout_ms=20_000)
    async with running(stable):
        await wait_until(lambda: stable.committed, "the first member")
    held = RetryingMember("held", emulator.address, partition=1, session_timeout_ms=20_000)
    writer = RetryingMember("writer", emulator.address, group="writing", partition=2, session_timeout_ms=20_000)
    async with running(held, writer):
        await wait_until(
            lambda: writer.committed and join_is_held(held, emulator), "a join that waits for the first member"
        )
        filler = fill(small_disk)
        await wait_until(lambda: E.NOT_COORDINATOR in held.codes, "the response to the held join")
        filler.unlink()
        await wait_until(lambda: "store-reopened" in emulator.log, "the reopening")


@pytest.mark.slow
async def test_an_emulator_with_a_full_disk_can_be_stopped(emulator: EmulatorProcess, small_disk: Path) -> None:
    member = RetryingMember("member", emulator.address, session_timeout_ms=20_000)
    async with running(member):
        await wait_until(lambda: member.committed, "a stable group")
        fill(small_disk)
        await wait_until(lambda: "store-still-fails" in emulator.log, "the failure")
    assert emulator.terminate() == 0
    assert "Traceback" not in emulator.log
    assert run_regroup("verify", emulator.store).returncode == 0


@pytest.mark.slow
def test_a_disk_that_is_full_at_the_start_is_reported_and_the_store_stays_unchanged(
    emulator: EmulatorProcess, small_disk: Path
) -> None:
    assert emulator.terminate() == 0
    before = emulator.store.read_bytes()
    filler = fill(small_disk)
    refused = run_regroup("serve", "--port", "0", "--store", emulator.store)
    assert refused.returncode == 2
    assert "free some disk space" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert emulator.store.read_bytes() == before
    assert run_regroup("verify", emulator.store).returncode == 0
    filler.unlink()
    emulator.start()
    eventually(lambda: emulator.events(None, kind="topic-created"), "the topic that was created before")


@pytest.mark.slow
def test_a_read_only_disk_is_reported(emulator: EmulatorProcess, small_disk: Path) -> None:
    assert emulator.terminate() == 0
    before = emulator.store.read_bytes()
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    refused = run_regroup("serve", "--port", "0", "--store", emulator.store)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert "Read-only file system" in refused.stderr
    assert run_regroup("verify", emulator.store).returncode == 0
    assert emulator.store.read_bytes() == before
