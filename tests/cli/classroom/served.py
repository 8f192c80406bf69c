"""A page of the classroom that a command of its own process serves, over HTTP."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.http_answers import Answer, answer_of

TIMEOUT_S = 120
COMMAND = "import sys; from regroup.cli.main import main; sys.exit(main())"


class ServedPage:
    """The page at an address on this machine."""

    def __init__(self, address: str, port: int) -> None:
        self.address, self._port = address, port

    def get(self, path: str, method: str = "GET", body: bytes | None = None, **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return answer_of("127.0.0.1", self._port, method, path, body, named, timeout_s=TIMEOUT_S)

    def post(self, path: str, **body: object) -> Answer:
        return self.get(path, "POST", json.dumps(body).encode(), content_type="application/json")


@contextmanager
def served_page(first_word: str, *words: object) -> Iterator[ServedPage]:
    """Run this command of regroup until the end of the block; it has to end by Ctrl-C with exit code 0.

    Its first line begins with `first_word` and the address.
    """
    process = subprocess.Popen([sys.executable, "-c", COMMAND, *map(str, words)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        found = re.match(rf"{first_word}  (http://127\.0\.0\.1:(\d+)/\S*) ", line)
        assert found is not None, line
        yield ServedPage(found[1], int(found[2]))
        process.send_signal(signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 0
    finally:
        process.kill()
        process.stdout.close()
        process.wait()
