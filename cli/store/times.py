"""Parses times on the command line: a time of day, or a date with a time, in UTC."""

import re
from datetime import datetime, timedelta
from typing import Final

_TIME: Final = re.compile(r"(?:(\d{4}-\d\d-\d\d)[T ])?(\d\d):(\d\d)(?::(\d\d(?:\.\d{1,3})?))?Z?", re.ASCII)
DAY_MS: Final = 86_400_000


class Moment:
    """A time of day, with a date or without. Without one, the store's last event decides the day."""

    def __init__(self, date: str | None, of_day_ms: int) -> None:
        self._date = date
        self._of_day_ms = of_day_ms

    def at_ms(self, last_ms: int) -> int:
        """The time in epoch milliseconds; without a date, on the day of `last_ms`."""
        if self._date is None:
            return last_ms - last_ms % DAY_MS + self._of_day_ms
        return int(datetime.fromisoformat(f"{self._date}T00:00:00+00:00").timestamp() * 1000) + self._of_day_ms


def parse_moment(text: str) -> Moment:
    """Parse `12:00`, `12:00:45.2` or `2026-11-22T12:00:45`, in UTC."""
    match = _TIME.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        date, hours, minutes, seconds = match.groups()
        if date is not None:
            datetime.fromisoformat(date)
        time = timedelta(hours=int(hours), minutes=int(minutes), seconds=float(seconds or 0))
        if time >= timedelta(days=1) or int(minutes) > 59 or float(seconds or 0) >= 60:
            raise ValueError
    except ValueError:
        raise ValueError(f"invalid time: {text!r}; write 12:00, 12:00:45.2 or 2026-11-22T12:00:45, in UTC") from None
    return Moment(date, round(time.total_seconds() * 1000))
