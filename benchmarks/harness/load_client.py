"""Runs `load.c` against a server, and says what it has measured."""

import asyncio
from pathlib import Path
from typing import NamedTuple

from harness.process_cpu import tree_cpu_s
from harness.servers import Server, Unavailable


class Measurement(NamedTuple):
    """The figures of one run of the client: answered requests a second, times to the response, and its own load."""

    per_second: float
    median_us: float
    p99_us: float
    client_load: float
    server_cpu_us: float
    """CPU time of the server for one request, in microseconds."""


async def run_client(
    client: Path, server: Server, file: Path, in_flight: int, warm_up_s: float, seconds: float, rate: float = 0
) -> Measurement:
    """Run the client. With a rate it sends so many requests a second at most. Raises Unavailable if it fails."""
    arguments = [server.host, server.port, file, in_flight, warm_up_s, seconds, rate]
    before_s = tree_cpu_s(server.process_id)
    process = await asyncio.create_subprocess_exec(client, *map(str, arguments), stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    if process.returncode:
        raise Unavailable("the client ended with an error, which stands above")
    per_second, median_us, p99_us, client_load = map(float, output.split())
    cpu_us = (tree_cpu_s(server.process_id) - before_s) / (per_second * (seconds + warm_up_s)) * 1e6
    return Measurement(per_second, median_us, p99_us, client_load, cpu_us)


def resident_mib(process_id: int) -> float:
    """Resident memory of a server in MiB; if the server has started a Java process, the memory of that."""
    children = Path(f"/proc/{process_id}/task/{process_id}/children").read_text().split()
    status = Path(f"/proc/{children[0] if children else process_id}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024
