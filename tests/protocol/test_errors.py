"""The table of error codes, compared with that of another library."""

import re

from kio.schema.errors import ErrorCode as KioErrorCode

from regroup.protocol.errors import ErrorCode


def test_codes_names_and_retriability_are_kafkas() -> None:
    theirs = {code.value: (code.name.upper(), code.retriable) for code in KioErrorCode}
    assert {int(code): (code.name, code.retriable) for code in ErrorCode} == theirs


def test_every_meaning_is_a_sentence() -> None:
    assert [code.name for code in ErrorCode if not re.fullmatch(r"[A-Z].*\.", code.meaning)] == []


def test_a_member_stays_in_the_group_during_a_rebalance_and_not_when_it_is_unknown() -> None:
    assert ErrorCode(27).member_stays_in_group is True
    assert ErrorCode.UNKNOWN_MEMBER_ID.member_stays_in_group is False
    assert ErrorCode.CORRUPT_MESSAGE.member_stays_in_group is None


def test_an_unknown_code_is_shown_as_its_number() -> None:
    assert ErrorCode.name_of(27) == "REBALANCE_IN_PROGRESS"
    assert ErrorCode.name_of(999) == "error code 999"
