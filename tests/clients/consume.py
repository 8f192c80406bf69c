"""A consumer as a process that may be killed: it consumes, commits after every poll, and says so in lines of JSON.

python -m regroup.tests.clients.consume '{"library": "aiokafka", "address": "127.0.0.1:9092", ...}'
"""

import json
import signal
import sys
from threading import Event

from regroup.tests.clients.libraries import CONSUMERS, Partitions, Wish

UNFINISHED = "unfinished"
"""Work that takes for ever: what is polled together with such a value is not committed."""


def say(what: str, **details: object) -> None:
    print(json.dumps({"what": what, **details}), flush=True)


def tell(what: str, partitions: Partitions) -> None:
    say(what, partitions=list(partitions))


def consume(library: str, wish: Wish, enough: Event) -> None:
    """Until SIGTERM; then leave in the library's own way."""
    consumer = CONSUMERS[library](wish, tell)
    while not enough.is_set():
        records = consumer.poll()
        for record in records:
            say("record", **record._asdict())
        if records and not any(record.value.startswith(UNFINISHED) for record in records):
            refusal = consumer.commit()
            say("commit-refused" if refusal else "committed", why=refusal)
    consumer.close()
    say("closed")


if __name__ == "__main__":
    wanted = json.loads(sys.argv[1])
    told_to_stop = Event()
    signal.signal(signal.SIGTERM, lambda *_: told_to_stop.set())
    consume(wanted.pop("library"), Wish(**wanted), told_to_stop)
