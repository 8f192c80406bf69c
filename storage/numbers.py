"""The types of stored numbers, with their ranges. msgspec raises an error for a number outside."""

from typing import Annotated, TypeAlias

import msgspec

LARGEST_NUMBER = 2**62
"""The largest position, event number or epoch. SQLite holds numbers up to 2^63 - 1, so one can be added to each."""
LATEST_TIME_MS = 253_402_300_799_999
"""The last millisecond of the year 9999, which is the last that can be shown as a date."""

StoredNumber: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=LARGEST_NUMBER)]
StoredTime: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=LATEST_TIME_MS)]
