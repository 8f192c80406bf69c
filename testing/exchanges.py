"""Compares recorded exchanges with those that a test expects."""

from collections.abc import Sequence

from regroup.server.recording.exchange import RecordedExchange


def check_exchanges(expected: Sequence[str], actual: Sequence[RecordedExchange]) -> None:
    """Raise AssertionError with both lists unless they name the same APIs, in the same order.

    An entry may name the answer too: `Heartbeat: UNKNOWN_MEMBER_ID`.
    """
    shown = [
        f"{each.api}: {each.answer}" if ":" in wanted else each.api
        for each, wanted in zip(actual, [*expected, *[""] * len(actual)], strict=False)
    ]
    if shown != list(expected):
        rows = "\n".join(f"  {each}" for each in actual) or "  none"
        raise AssertionError(f"expected {', '.join(expected) or 'no exchange'}; recorded:\n{rows}")
