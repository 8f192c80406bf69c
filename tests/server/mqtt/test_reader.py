"""A reader of the feed ends with every event once."""

from hypothesis import given
from hypothesis import strategies as st

from regroup.server.mqtt.messages import FeedEvent, FeedMessage
from regroup.server.mqtt.reader import FeedReader


def feed_message(*numbers: int, is_replay: bool = False, first_event_number: int = 1) -> FeedMessage:
    events = [
        FeedEvent(position=n * 10, event_number=n, coordinator_epoch=1, at_ms=n, type="offsets-committed", version=1)
        for n in numbers
    ]
    return FeedMessage(group="payments", events=events, is_replay=is_replay, first_event_number=first_event_number)


def numbers(events: list[FeedEvent]) -> list[int]:
    return [event.event_number for event in events]


def test_a_duplicate_is_accepted_once() -> None:
    reader = FeedReader()
    assert numbers(reader.accept(feed_message(1, 2))) == [1, 2]
    assert numbers(reader.accept(feed_message(2, 3))) == [3]
    assert list(reader.gaps()) == []


def test_a_gap_is_found_and_filled_in_order() -> None:
    reader = FeedReader()
    assert numbers(reader.accept(feed_message(1))) == [1]
    assert numbers(reader.accept(feed_message(4, 5))) == []
    assert list(reader.gaps()) == [("payments", 2)]
    assert numbers(reader.accept(feed_message(2, 3, 4, 5, is_replay=True))) == [2, 3, 4, 5]
    assert list(reader.gaps()) == []


def test_a_summary_shows_events_that_were_not_received() -> None:
    reader = FeedReader()
    reader.note_event_number("payments", 3)
    assert list(reader.gaps()) == [("payments", 1)]


def test_a_reader_may_begin_with_the_first_received_event() -> None:
    reader = FeedReader(from_start=False)
    assert numbers(reader.accept(feed_message(7, 8))) == [7, 8]
    assert list(reader.gaps()) == []


def test_trimmed_events_are_not_requested() -> None:
    reader = FeedReader()
    assert numbers(reader.accept(feed_message(9))) == []
    assert numbers(reader.accept(feed_message(6, 7, 8, 9, is_replay=True, first_event_number=6))) == [6, 7, 8, 9]
    assert list(reader.gaps()) == []


@given(st.data(), st.integers(1, 30))
def test_any_losses_and_duplicates_end_with_every_event_once(data: st.DataObject, count: int) -> None:
    reader, accepted = FeedReader(), []
    messages = data.draw(st.lists(st.lists(st.integers(1, count), unique=True, min_size=1).map(sorted), max_size=20))
    for some in messages:
        accepted += numbers(reader.accept(feed_message(*some)))
    reader.note_event_number("payments", count)
    for _ in range(2):
        for _, number in list(reader.gaps()):
            accepted += numbers(reader.accept(feed_message(*range(number, count + 1), is_replay=True)))
    assert accepted == list(range(1, count + 1))
