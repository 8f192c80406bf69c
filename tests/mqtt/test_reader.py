"""Whoever reads the feed ends with every event, once."""

from hypothesis import given
from hypothesis import strategies as st

from regroup.server.mqtt.messages import FeedEvent, FeedMessage
from regroup.server.mqtt.reader import FeedReader


def told(*numbers: int, again: bool = False, first: int = 1) -> FeedMessage:
    events = [
        FeedEvent(position=n * 10, number=n, reign=1, at_ms=n, type="offsets-committed", version=1) for n in numbers
    ]
    return FeedMessage(group="payments", events=events, again=again, first=first)


def numbers(events: list[FeedEvent]) -> list[int]:
    return [event.number for event in events]


def test_what_comes_twice_is_taken_once() -> None:
    reader = FeedReader()
    assert numbers(reader.take(told(1, 2))) == [1, 2]
    assert numbers(reader.take(told(2, 3))) == [3]
    assert list(reader.missing()) == []


def test_a_gap_is_noticed_and_filled_in_order() -> None:
    reader = FeedReader()
    assert numbers(reader.take(told(1))) == [1]
    assert numbers(reader.take(told(4, 5))) == []
    assert list(reader.missing()) == [("payments", 2)]
    assert numbers(reader.take(told(2, 3, 4, 5, again=True))) == [2, 3, 4, 5]
    assert list(reader.missing()) == []


def test_the_summary_tells_of_events_that_nobody_told() -> None:
    reader = FeedReader()
    reader.heard_of("payments", 3)
    assert list(reader.missing()) == [("payments", 1)]


def test_whoever_comes_late_may_begin_late() -> None:
    reader = FeedReader(from_start=False)
    assert numbers(reader.take(told(7, 8))) == [7, 8]
    assert list(reader.missing()) == []


def test_what_was_trimmed_is_not_waited_for() -> None:
    reader = FeedReader()
    assert numbers(reader.take(told(9))) == []
    assert numbers(reader.take(told(6, 7, 8, 9, again=True, first=6))) == [6, 7, 8, 9]
    assert list(reader.missing()) == []


@given(st.data(), st.integers(1, 30))
def test_any_losses_and_repetitions_end_with_every_event_once(data: st.DataObject, count: int) -> None:
    reader, taken = FeedReader(), []
    messages = data.draw(st.lists(st.lists(st.integers(1, count), unique=True, min_size=1).map(sorted), max_size=20))
    for some in messages:
        taken += numbers(reader.take(told(*some)))
    reader.heard_of("payments", count)
    for _ in range(2):
        for _, number in list(reader.missing()):
            taken += numbers(reader.take(told(*range(number, count + 1), again=True)))
    assert taken == list(range(1, count + 1))
