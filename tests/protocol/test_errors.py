"""The table of error codes beside that of another library."""

import pytest
from kio.schema.errors import ErrorCode as KioErrorCode

from regroup.protocol.errors import ErrorCode


def test_codes_names_and_retries_are_kafkas() -> None:
    theirs = {code.value: (code.name.upper(), code.retriable) for code in KioErrorCode}
    assert {int(code): (code.name, code.retriable) for code in ErrorCode} == theirs


@pytest.mark.parametrize("code", ErrorCode, ids=lambda code: code.name)
def test_every_meaning_is_a_sentence(code: ErrorCode) -> None:
    assert code.meaning[0].isupper()
    assert code.meaning.endswith(".")


def test_a_member_keeps_its_place_through_a_rebalance_and_loses_it_when_it_is_unknown() -> None:
    assert ErrorCode(27).member_keeps_its_place is True
    assert ErrorCode.UNKNOWN_MEMBER_ID.member_keeps_its_place is False
    assert ErrorCode.CORRUPT_MESSAGE.member_keeps_its_place is None


def test_a_code_from_the_future_is_shown_as_its_number() -> None:
    assert ErrorCode.named(27) == "REBALANCE_IN_PROGRESS"
    assert ErrorCode.named(999) == "error code 999"
