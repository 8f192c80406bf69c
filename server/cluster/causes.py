"""Causes that are no request: what the broker does of its own accord, to stand beside the events that it leads to."""

from typing import Final

from regroup.coordinator.serialization import Cause, written_cause

START: Final = written_cause(Cause(occasion="the start of the broker"))
STOP: Final = written_cause(Cause(occasion="the end of the broker"))
RECORDS: Final = written_cause(Cause(occasion="records that came in"))
TRANSACTION_ENDS: Final = written_cause(Cause(occasion="the end of a transaction"))
TRANSACTION_TIMEOUT: Final = written_cause(Cause(deadline="transaction"))
