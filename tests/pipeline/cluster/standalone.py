"""A standalone cluster of Spark on loopback: a master and two workers, each with folders of its own."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

from tests.clients.emulator import eventually, free_port
from tests.pipeline.locations.servers import SPARK_JARS

SPARK_HOME: Final = SPARK_JARS.parent
START_TIMEOUT_S: Final = 300.0
LOOPBACK: Final = "127.0.0.1"
# Executors with one address would read each other's shuffle files from the disk.
WORKER_HOSTS: Final = {"first": "127.0.0.2", "second": "127.0.0.3"}

SETTINGS: Final = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.executor.memory": "600m",
    "spark.driver.memory": "600m",
}


class Standalone:
    """A master, and workers that can be killed. Each worker has one core, its work folder and its scratch folder."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._port = folder, free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.master = f"spark://{LOOPBACK}:{self._port}"

    def start(self) -> None:
        ports = ["--port", str(self._port), "--webui-port", "0"]
        self._run("master", "org.apache.spark.deploy.master.Master", "--host", LOOPBACK, *ports)
        eventually(lambda: "I have been elected leader" in self.log("master"), "the master", START_TIMEOUT_S)
        self.start_workers("first", "second")

    def start_workers(self, *names: str) -> None:
        """Start workers; tasks that one of them runs have a current folder below FOLDER/NAME/work."""
        for name in names:
            self._run_worker(name)
        for name in names:
            eventually(partial(self._is_registered, name), name, START_TIMEOUT_S)

    def _is_registered(self, name: str) -> bool:
        return "Successfully registered with master" in self.log(name)

    def _run_worker(self, name: str) -> None:
        place = ["--host", WORKER_HOSTS[name], "--work-dir", str(self._folder / name / "work"), "--webui-port", "0"]
        resources = ["--cores", "1", "--memory", "1g"]
        self._run(name, "org.apache.spark.deploy.worker.Worker", *place, *resources, self.master)

    def kill_worker(self, name: str) -> int:
        """Kill a worker, its executors and their Python processes at once, and return how many these were."""
        process = self._processes.pop(name)
        process.kill()
        process.wait()
        killed = 0
        for each in processes_in(self._folder / name / "work"):
            os.kill(each, signal.SIGKILL)
            killed += 1
        return killed

    def stop(self) -> None:
        for name in list(self._processes):
            self.kill_worker(name)

    def log(self, name: str) -> str:
        return (self._folder / name / "log").read_text(errors="replace")

    def _run(self, name: str, *words: str) -> None:
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        environment = {
            **{each: value for each, value in os.environ.items() if each not in ("PYTHONPATH", "SPARK_CONF_DIR")},
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_DIRS": str(folder / "scratch"),
            "SPARK_LOCAL_IP": WORKER_HOSTS.get(name, LOOPBACK),
            "SPARK_DAEMON_MEMORY": "256m",
        }
        with (folder / "log").open("wb") as log:
            self._processes[name] = subprocess.Popen(
                [SPARK_HOME / "bin" / "spark-class", *words], cwd=folder, stdout=log, stderr=log, env=environment
            )


def processes_in(folder: Path) -> Iterator[int]:
    """The ids of the processes whose current folder is below this one."""
    for each in Path("/proc").glob("[0-9]*/cwd"):
        try:
            current = each.readlink()
        except OSError:
            continue  # it has ended, or belongs to somebody else
        if current.is_relative_to(folder):
            yield int(each.parent.name)


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[Standalone]:
    folder.mkdir()
    cluster = Standalone(folder.resolve())
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
