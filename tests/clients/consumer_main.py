"""A consumer as a process that a test may kill: it commits after every poll, and prints what it does as lines of JSON.

python -m tests.clients.consumer_main '{"library": "aiokafka", "address": "127.0.0.1:9092", ...}'
"""

import json
import signal
import sys
from contextlib import suppress
from threading import Event

from tests.clients.libraries import CONSUMERS, Consumer, ConsumerOptions, Partitions

UNFINISHED = "unfinished"
"""The prefix of values whose processing never ends: records that are polled with such a value are not committed."""


def report(what: str, **details: object) -> None:
    print(json.dumps({"what": what, **details}), flush=True)


def report_partitions(what: str, partitions: Partitions) -> None:
    report(what, partitions=list(partitions))


def consume(library: str, options: ConsumerOptions) -> None:
    """Consume until SIGTERM, then close the consumer as its library does."""
    consumer = CONSUMERS[library](options, report_partitions)
    stopped = Event()

    def stop(*_: object) -> None:
        stopped.set()
        if library == "kafka-python":  # its polls are long, and end as they do on Ctrl-C
            raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, stop)
    with suppress(KeyboardInterrupt):
        while not stopped.is_set():
            poll_and_commit(consumer)
    consumer.close()
    report("closed")


def poll_and_commit(consumer: Consumer) -> None:
    records = consumer.poll()
    for record in records:
        report("record", **record._asdict())
    if records and not any(record.value.startswith(UNFINISHED) for record in records):
        error = consumer.commit()
        report("commit-refused" if error else "committed", error=error)


if __name__ == "__main__":
    arguments = json.loads(sys.argv[1])
    consume(arguments.pop("library"), ConsumerOptions(**arguments))
