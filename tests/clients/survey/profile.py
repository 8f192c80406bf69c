"""What every run of the survey has in common: times, names, and how long a run may take."""

from typing import Final

GROUP: Final = "survey"
TOPIC: Final = "orders"
PARTITIONS: Final = 2
BROKERS: Final = 2
CLIENT_ID: Final = "client"
INSTANCE_ID: Final = "instance"

PROFILE: Final = {
    "session_timeout_ms": 6_000,
    "heartbeat_interval_ms": 300,
    "rebalance_timeout_ms": 6_000,
    "request_timeout_ms": 3_000,
    "commit_interval_ms": 100,
}
"""The settings of all clients. Each program gives them to its library under the library's own names."""
LOADING_S: Final = 10.0
LOOKUP_DELAY_S: Final = 0.3
"""As long as a lookup may wait behind a Fetch, and longer than a retry does."""
THROTTLE_MS: Final = 2_000
RUNS: Final = 5
"""Runs of a cell."""
RECORD_INTERVAL_S: Final = 0.025
"""A record is produced so often, to each partition in turn."""
RECORDS_BEFORE: Final = 10
"""Records in each partition before the client starts."""
COMMITTED_BEFORE: Final = 6
"""The offset that the group has committed in each partition before the client starts."""
COMMITS_BEFORE: Final = 4
"""So many more records of each partition are committed before the fault."""
SETTLED_MS: Final = 900
"""A run ends when so much time has passed after the recovery without further trouble: three heartbeats."""
QUIET_MS: Final = 10_000
"""A client that has sent no request about its group for so long, much longer than its session, has given up."""
LIMIT_MS: Final = 15_000
"""A client that has not recovered by then counts as not recovered, unless the fault itself lasts."""
START_LIMIT_S: Final = 30.0
