"""The client programs: how each is built and started, and how its lines are read."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Any, Final

from tests.clients.others.other_process import JAVA_FOLDER, KAFKAJS, downloaded

HERE: Final = Path(__file__).parent
ROOT: Final = Path(__file__).parents[4]
READY_S: Final = 20.0


class ClientProgram:
    """A client program that has loaded its library and waits for its order."""

    def __init__(self, command: Sequence[str | Path], environment: Mapping[str, str], errors: Path) -> None:
        with errors.open("w") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=ROOT,
                env=os.environ | environment,
            )
        self.lines: list[dict[str, Any]] = []
        self._ready: Queue[dict[str, Any]] = Queue()
        self._errors = errors
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            if line.startswith("{"):
                message = json.loads(line)
                if message["what"] == "ready":
                    self._ready.put(message)
                else:
                    self.lines.append(message)

    def wait_until_ready(self) -> dict[str, Any]:
        """Library, version and runtime. Raises RuntimeError with the errors of the program."""
        try:
            return self._ready.get(timeout=READY_S)
        except Empty:
            raise RuntimeError(f"{self._process.args!r} did not start: {self._errors.read_text()[-500:]}") from None

    def begin(self, order: Mapping[str, object]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    @property
    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._process.poll()

    def kill(self) -> None:
        """End it without any farewell to the brokers."""
        self._process.kill()
        self._process.wait()
        self._reader.join(5)
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                stream.close()


Command = tuple[Sequence[str | Path], dict[str, str]]


def python_program(module: str) -> Callable[[Path], Command]:
    return lambda _: ([sys.executable, "-m", f"tests.clients.survey.programs.{module}"], {})


def java_program(folder: Path) -> Command:
    jars = downloaded(
        JAVA_FOLDER,
        *(
            "sh",
            "-c",
            f"mvn -q -B -f {HERE.parents[1] / 'others/pom.xml'} dependency:copy-dependencies -DoutputDirectory=$0",
        ),
    )
    classes = folder / "java"
    _run("javac", "-cp", f"{jars}/*", "-d", classes, HERE / "SurveyConsumer.java")
    return ["java", "-cp", f"{jars}/*:{classes}", "SurveyConsumer"], {}


def kafkajs_program(_: Path) -> Command:
    modules = downloaded(
        f"kafkajs-{KAFKAJS}", "npm", "install", "--no-audit", "--no-fund", f"kafkajs@{KAFKAJS}", "--prefix"
    )
    return ["node", HERE / "consume.cjs"], {"NODE_PATH": str(modules / "node_modules")}


def franz_go_program(folder: Path) -> Command:
    _run("go", "build", "-C", HERE / "franz_go", "-o", folder / "franz-go", ".")
    return [folder / "franz-go"], {}


def _run(*command: str | Path) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command[0]} failed: {done.stderr[-500:]}")


PROGRAMS: Final[dict[str, tuple[Callable[[Path], Command], tuple[str, ...]]]] = {
    "librdkafka": (python_program("consume_librdkafka"), ()),
    "kafka-python": (python_program("consume_kafka_python"), ()),
    "aiokafka": (python_program("consume_aiokafka"), ()),
    "java": (java_program, ("java", "javac", "mvn")),
    "franz-go": (franz_go_program, ("go",)),
    "kafkajs": (kafkajs_program, ("node", "npm")),
}
"""How the command of each client is made, and the tools that this needs."""
WITHOUT_STATIC_MEMBERS: Final = ("kafkajs",)


def missing_tools(client: str) -> list[str]:
    return [tool for tool in PROGRAMS[client][1] if shutil.which(tool) is None]
