"""Requests over HTTP to a port of this machine, and what they are answered with."""

import http.client
import json
from contextlib import closing
from typing import Any, NamedTuple


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The sentence of a refused request."""
        text = self.json["error"]
        assert text
        assert "\n" not in text
        return text


def answer_of(
    host: str, port: int, method: str, path: str, body: bytes | None, headers: dict[str, str], *, timeout_s: float
) -> Answer:
    """Send a request on a connection of its own, and read its answer."""
    with closing(http.client.HTTPConnection(host, port, timeout=timeout_s)) as connection:
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
