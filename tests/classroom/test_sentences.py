"""Sentences of single moments."""

from hypothesis import given, settings
from hypothesis import strategies as st

from regroup.classroom.fold.build import timeline_of
from regroup.classroom.sentences import moment_sentence
from regroup.classroom.wording import MemberNames, since_text
from tests.classroom.histories import drawn_history, groups_of


@settings(max_examples=5, deadline=None)
@given(st.integers(1, 400))
def test_every_moment_has_a_sentence(seed: int) -> None:
    records = drawn_history(seed, minutes=3)
    for name in groups_of(records):
        timeline = timeline_of(name, records)
        names = MemberNames(timeline.names)
        for moment in timeline.moments:
            assert moment_sentence(moment, names).endswith((".", ")"))


def test_a_name_in_a_reason_keeps_the_comma_behind_it() -> None:
    names = MemberNames({"anna-1": "anna", "ben-1": "ben"})
    assert names.within("held JoinGroup of anna-1, ben-1; more") == "held JoinGroup of anna, ben; more"


def test_a_time_since_the_start_is_written_in_one_form() -> None:
    assert [since_text(each) for each in (0, 43_017, 103_017)] == ["+0.000 s", "+43.017 s", "+103.017 s"]
