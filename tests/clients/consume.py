"""A consumer as a process that may be killed: it consumes, commits after every poll, and says so in lines of JSON.

python -m tests.clients.consume '{"library": "aiokafka", "address": "127.0.0.1:9092", ...}'
"""

import json
import signal
import sys
from contextlib import suppress
from threading import Event

from tests.clients.libraries import CONSUMERS, Consumer, Partitions, Wish

UNFINISHED = "unfinished"
"""Work that takes for ever: what is polled together with such a value is not committed."""


def say(what: str, **details: object) -> None:
    print(json.dumps({"what": what, **details}), flush=True)


def tell(what: str, partitions: Partitions) -> None:
    say(what, partitions=list(partitions))


def consume(library: str, wish: Wish) -> None:
    """Until SIGTERM; then leave in the library's own way."""
    consumer = CONSUMERS[library](wish, tell)
    told_to_stop = Event()

    def stop(*_: object) -> None:
        told_to_stop.set()
        if library == "kafka-python":  # its polls are long, and end as they do on Ctrl-C
            raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    with suppress(KeyboardInterrupt):
        while not told_to_stop.is_set():
            work(consumer)
    consumer.close()
    say("closed")


def work(consumer: Consumer) -> None:
    records = consumer.poll()
    for record in records:
        say("record", **record._asdict())
    if records and not any(record.value.startswith(UNFINISHED) for record in records):
        refusal = consumer.commit()
        say("commit-refused" if refusal else "committed", why=refusal)


if __name__ == "__main__":
    wanted = json.loads(sys.argv[1])
    consume(wanted.pop("library"), Wish(**wanted))
