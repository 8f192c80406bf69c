"""An emulator with its control port, both in a thread, and requests to it."""

import asyncio
import http.client
import json
import threading
import types
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, closing, contextmanager
from typing import Any
from urllib.parse import urlencode

import pytest

pytest.importorskip("uvicorn", reason="needs starlette and uvicorn")

from regroup.control.endpoints.endpoint import ControlledEmulator
from regroup.control.web.files import PortKind
from regroup.control.web.server import serve_control
from regroup.testing import AsyncEmulator, Emulator
from tests.http_answers import Answer, answer_of

TIMEOUT_S = 20
TOKEN = "a token for these tests alone"


class Control:
    """Sends requests to a control port."""

    def __init__(self, host: str, port: int) -> None:
        self.host, self.port = host, port

    def send(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> Answer:
        return answer_of(self.host, self.port, method, path, body, headers or {}, timeout_s=TIMEOUT_S)

    def get(self, path: str, headers: dict[str, str] | None = None, **query: Any) -> Answer:
        return self.send("GET", f"{path}?{urlencode(query, doseq=True)}" if query else path, headers=headers)

    def post(self, path: str, **body: Any) -> Answer:
        return self.send("POST", path, json.dumps(body).encode(), {"content-type": "application/json"})

    def look(self, path: str, **query: Any) -> Any:
        """The JSON of a request that is answered."""
        return answered(self.get(path, **query))

    def act(self, path: str, **body: Any) -> Any:
        return answered(self.post(path, **body))

    @contextmanager
    def stream(self, path: str, headers: dict[str, str] | None = None, **query: Any) -> Iterator["Stream"]:
        with closing(http.client.HTTPConnection(self.host, self.port, timeout=TIMEOUT_S)) as connection:
            connection.request("GET", f"{path}?{urlencode(query)}", headers=headers or {})
            yield Stream(connection.getresponse())

    def in_background(self, path: str, **query: Any) -> "Background":
        """A request that waits, in a thread."""
        return Background(lambda: self.get(path, **query))


def answered(answer: Answer) -> Any:
    assert answer.status == 200, answer
    return answer.json


class Stream:
    """Server-sent events, one after another."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        assert response.status == 200, response.read()
        self.media_type = response.headers["content-type"]
        self._response = response

    def next(self) -> Any:
        """The JSON of the next message; None at the end of the stream."""
        while line := self._response.readline():
            if line.startswith(b"data: "):
                return json.loads(line[len(b"data: ") :])
        return None


class Background:
    def __init__(self, ask: Callable[[], Answer]) -> None:
        self._answers: list[Answer] = []
        self._thread = threading.Thread(target=lambda: self._answers.append(ask()), daemon=True)
        self._thread.start()

    def result(self) -> Answer:
        self._thread.join(TIMEOUT_S)
        (answer,) = self._answers
        return answer


class Port:
    """A control port of an emulator that runs in its thread."""

    def __init__(self, kafka: Emulator, **options: Any) -> None:
        self._stack = AsyncExitStack()
        self._kafka = kafka
        options = {"host": "127.0.0.1", "port": 0} | options
        address = kafka._running.run(self._open(kafka._emulator, options))
        host, _, port = address.removeprefix("http://").rpartition(":")
        self.control = Control("127.0.0.1" if host == "0.0.0.0" else host.strip("[]"), int(port))

    async def _open(self, emulator: AsyncEmulator, options: dict[str, Any]) -> str:
        controlled = ControlledEmulator(emulator)
        self._stack.push_async_callback(controlled.close)
        return await self._stack.enter_async_context(serve_control(controlled, **options))

    def close(self) -> None:
        self._kafka._running.run(self._stack.aclose())


StartControl = Callable[..., Control]


@pytest.fixture(autouse=True)
def short_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let uvicorn look 200 times a second whether it is to stop; by itself a stop takes 0.2 s, most of a test."""
    hurried = vars(asyncio) | {"sleep": lambda delay_s: asyncio.sleep(delay_s / 20)}
    monkeypatch.setattr("uvicorn.server.asyncio", types.SimpleNamespace(**hurried))


@pytest.fixture
def kafka() -> Iterator[Emulator]:
    with Emulator(topics={"orders": 2}, brokers=2) as emulator:
        yield emulator


@pytest.fixture(scope="module")
def unchanged() -> Iterator[Emulator]:
    """An emulator for all tests of a module that only look, or are refused."""
    with Emulator(topics={"orders": 2}, brokers=2) as emulator:
        yield emulator


@pytest.fixture(scope="module")
def looked_at(unchanged: Emulator) -> Iterator[Control]:
    """The control port of that emulator."""
    with closing(Port(unchanged)) as port:
        yield port.control


@pytest.fixture
def start_control(kafka: Emulator) -> Iterator[StartControl]:
    with ExitStack() as stack:

        def start(**options: Any) -> Control:
            return stack.enter_context(closing(Port(kafka, **options))).control

        yield start


@pytest.fixture
def control(start_control: StartControl) -> Control:
    return start_control()


@pytest.fixture
def port(start_control: StartControl) -> Control:
    """The port of a live page."""
    return start_control(kind=PortKind.PAGE)
