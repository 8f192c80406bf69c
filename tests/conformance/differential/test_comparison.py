"""A comparison says how much its courses tested, and is not equal if that was too little."""

from collections import Counter

import msgspec

from regroup.conformance.differential.comparison import (
    CourseComparison,
    encode_comparison,
    format_comparison,
    merge,
    summarize,
)
from regroup.conformance.differential.course_result import MAX_LATE_ATTEMPTS, CourseDifference, CourseResult
from regroup.conformance.differential.played_course import MoveObservation
from regroup.conformance.differential.random_course import CourseMove, MoveKind, RandomCourse
from tests.conformance.page import BY_HAND_BEGINS, BY_HAND_ENDS, render_page, with_random_courses

COURSE = RandomCourse(1, (), (CourseMove(MoveKind.WAIT, 0, 0),), 500)


def result(seed: int, answered: int, refused: int, *, restarted: bool = False) -> CourseResult:
    requests = Counter({("JoinGroup", 9, True): answered, ("JoinGroup", 9, False): refused})
    return CourseResult(seed, agreed=True, requests=requests, restarted=restarted)


def compare(*results: CourseResult) -> CourseComparison:
    return summarize("one", "other", "2030-01-01", "the command", {"group.max.size": "3"}, results)


def test_requests_are_counted_by_version_and_by_course() -> None:
    comparison = compare(result(1, 30, 5), result(2, 20, 5, restarted=True))
    assert (comparison.requests["JoinGroup"][9].requests, comparison.requests["JoinGroup"][9].answered) == (60, 50)
    assert [each.requests for each in comparison.requests_by_seed.values()] == [35, 25]
    assert comparison.is_equal
    lines = [*format_comparison(comparison)]
    assert lines[1].split() == ["JoinGroup", "60", "50", "v9", "50/60"]
    assert lines[3] == "2 courses of one and other compared, 1 of them with a restart:"
    assert lines[-1] == "     0 differ"


def test_courses_in_which_most_requests_were_refused_test_too_little() -> None:
    comparison = compare(result(1, 10, 30))
    assert not comparison.is_equal
    assert [*format_comparison(comparison)][-1] == (
        "Only 25 % of the requests were answered without an error: these courses test little."
    )


def test_courses_without_a_result_test_nothing() -> None:
    late = CourseDifference(COURSE, 0, MoveObservation(COURSE.moves[0]), MoveObservation(COURSE.moves[0]), is_late=True)
    requests = Counter({("JoinGroup", 9, True): 9})
    comparison = compare(CourseResult(1, differences=[late] * MAX_LATE_ATTEMPTS, requests=requests))
    assert comparison.too_late == 1
    assert [*comparison.shortcomings()] == ["No course has a result."]


def test_a_comparison_can_be_read_back_from_json_and_is_put_on_the_page() -> None:
    comparison = compare(result(1, 30, 5))
    assert msgspec.json.decode(encode_comparison(comparison), type=CourseComparison) == comparison
    page = render_page([], [comparison], "# Conformance")
    assert "`group.initial.rebalance.delay.ms=3000`, `group.max.size=3`" in page
    assert "`the command`" in page
    assert "| JoinGroup | 35 | 30 | v9 30/35 |" in page
    assert "answered 86 % without an error; 35 to 35 requests in each course" in page


def test_courses_that_were_played_in_parts_add_up() -> None:
    both = merge([compare(result(1, 30, 5)), compare(result(2, 20, 5, restarted=True))])
    assert both == compare(result(1, 30, 5), result(2, 20, 5, restarted=True))


def test_only_the_section_of_random_courses_is_replaced() -> None:
    page = render_page([], [compare(result(1, 30, 5))], "# Conformance")
    other = compare(result(1, 30, 5), result(2, 20, 5))
    assert with_random_courses(page, [other]) == render_page([], [other], "# Conformance")


def test_a_new_page_keeps_its_random_courses_without_new_ones_and_what_is_written_by_hand_always() -> None:
    one, other = compare(result(1, 30, 5)), compare(result(2, 40, 6))
    page = render_page([], [one], "# Conformance")
    by_hand = f"{BY_HAND_BEGINS}\n\n### Seen by eye\n\nA table.\n\n{BY_HAND_ENDS}\n\n"
    page = page.replace("### one and other", f"{by_hand}### one and other", 1)
    assert by_hand in page
    assert render_page([], [], "# Conformance", page) == page
    published = render_page([], [other], "# Conformance", page)
    assert by_hand in published
    assert published.replace(by_hand, "") == render_page([], [other], "# Conformance")
    assert with_random_courses(page, [other]) == published
