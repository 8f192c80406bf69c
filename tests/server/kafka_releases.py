"""Asks released versions of Apache Kafka which API versions they serve, and writes server/kafka_releases.json.

    python tests/server/kafka_releases.py

Needs Java 17 and Maven, which fetches the jars into a directory that is gone afterwards. Releases that the file has
already are not asked again: to ask all of them, delete it first.
"""

import json
import subprocess
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
TABLE = HERE.parent.parent / "server" / "kafka_releases.json"
PRINT_APIS = HERE / "PrintApis.java"
RELEASES = [
    "2.0.1",
    "2.1.1",
    "2.2.2",
    "2.3.1",
    "2.4.1",
    "2.5.1",
    "2.6.3",
    "2.7.2",
    "2.8.2",
    "3.0.2",
    "3.1.2",
    "3.2.3",
    "3.3.2",
    "3.4.1",
    "3.5.2",
    "3.6.2",
    "3.7.2",
    "3.8.1",
    "3.9.1",
    "4.0.1",
    "4.1.1",
    "4.2.1",
    "4.3.1",
    "4.4.0",
]
TRANSACTION_VERSIONS_SINCE = "3.8.1"
LOGGING = "org.slf4j:slf4j-api:1.7.36"
SOURCE = (
    "ApiKeys of org.apache.kafka:kafka-clients and TransactionVersion of org.apache.kafka:kafka-server-common in the "
    "release named by `jars`, as printed by tests/server/PrintApis.java; written by tests/server/kafka_releases.py. "
    "`apis`: first and last stable version of each API that brokers show to clients, by API key; `refused_below`: "
    "where brokers refuse the first of these versions, the first one that they serve."
)


def fetch(artifact: str, folder: Path) -> None:
    command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"]
    subprocess.run(command, check=True)


def ask(release: str, scratch: Path) -> dict[str, object]:
    """What one release serves."""
    folder = scratch / release
    fetch(LOGGING, folder)
    fetch(f"org.apache.kafka:kafka-clients:{release}", folder)
    if RELEASES.index(release) >= RELEASES.index(TRANSACTION_VERSIONS_SINCE):
        fetch(f"org.apache.kafka:kafka-server-common:{release}", folder)
    command = ["java", "-cp", f"{folder}/*", str(PRINT_APIS)]
    printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    *rows, transactions = [line.split() for line in printed.splitlines()]
    apis = {key: [int(first), int(last)] for key, first, last, _ in rows}
    found = {"jars": release, "transaction_version": int(transactions[1]), "apis": apis}
    refused_below = {key: int(served) for key, first, _, served in rows if served != first}
    return found | ({"refused_below": refused_below} if refused_below else {})


def main() -> None:
    """One line a release, so that a change can be read."""
    rows = json.loads(TABLE.read_text(encoding="utf-8"))["releases"].values() if TABLE.exists() else []
    known = {row["jars"]: row for row in rows}
    with tempfile.TemporaryDirectory() as scratch:
        found = {release.rpartition(".")[0]: known.get(release) or ask(release, Path(scratch)) for release in RELEASES}
    lines = ",\n".join(f"    {json.dumps(name)}: {json.dumps(row)}" for name, row in found.items())
    text = f'{{\n  "source": {json.dumps(SOURCE)},\n  "releases": {{\n{lines}\n  }}\n}}\n'
    TABLE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
