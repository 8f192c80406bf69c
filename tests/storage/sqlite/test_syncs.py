"""Which thread waits for the disk: never that of the event loop while records are committed and trimmed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CC = shutil.which("cc")
SHIM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static void note(void) {
    int file = open(getenv("SYNCS"), O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (write(file, syscall(SYS_gettid) == getpid() ? "L" : "T", 1) != 1)
        abort();
    close(file);
}

int fsync(int file) { note(); return ((int (*)(int))dlsym(RTLD_NEXT, "fsync"))(file); }
int fdatasync(int file) { note(); return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(file); }
"""
"""Writes L for each wait in the thread of the loop, T for one in another thread."""

PROGRAM = """
import asyncio, os, sys
from pathlib import Path
from regroup.storage.records import NewRecord
from regroup.storage.sqlite.threaded import open_store

async def main():
    async with await open_store(sys.argv[1], durability=sys.argv[2]) as store:
        await store.append([NewRecord("a", 1, 1, 0, "member-joined", 1, b"{}", None)])
        Path(os.environ["SYNCS"]).write_text("")
        for number in range(2, 6):
            await store.append([NewRecord("a", number, 1, 0, "member-joined", 1, b"{}", None)])
            await store.checkpoint()
        await store.append([NewRecord("a", 6, 1, 0, "member-joined", 1, b"{}", None)])
        await store.save_snapshots(6, [])
        await store.trim(before=6)
        while await store.delete_trimmed():
            await store.append([NewRecord("a", store.last_position + 1, 1, 0, "member-joined", 1, b"{}", None)])
        await store.checkpoint()
        await store.append([NewRecord("a", store.last_position + 1, 1, 0, "member-joined", 1, b"{}", None)])
        print(Path(os.environ["SYNCS"]).read_text())

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if CC is None:
        pytest.skip("there is no C compiler (cc)")
    folder = tmp_path_factory.mktemp("shim")
    (folder / "shim.c").write_text(SHIM)
    command = [CC, "-shared", "-fPIC", "-o", folder / "shim.so", folder / "shim.c", "-ldl"]
    subprocess.run(command, check=True)
    return folder / "shim.so"


@pytest.mark.parametrize("durability", ["disk", "process"])
def test_commits_checkpoints_and_trims_do_not_let_the_event_loop_wait(
    shim: Path, tmp_path: Path, durability: str
) -> None:
    environment = os.environ | {"LD_PRELOAD": str(shim), "SYNCS": str(tmp_path / "syncs")}
    command = [sys.executable, "-c", PROGRAM, tmp_path / "store.db", durability]
    syncs = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.strip()
    assert "L" not in syncs
    assert "T" in syncs
