"""The scenarios that come with the lab: each is told to its end, and what it expects holds."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from regroup.lab.plan.expectations import AtLeastRebalances
from regroup.lab.plan.library import find_plan, scenario, scenario_names, scenario_text
from regroup.lab.plan.plan import Happening
from regroup.lab.plan.yaml_format import UnreadableStory, read_plan, write_plan
from regroup.lab.simulation.expectation_checks import is_expectation
from regroup.lab.simulation.world import play


def test_there_are_more_than_twenty_scenarios() -> None:
    assert len(scenario_names()) > 20
    assert scenario_names() == tuple(sorted(scenario_names()))


@pytest.mark.parametrize("name", scenario_names())
def test_what_a_scenario_expects_holds(name: str) -> None:
    outcome = play(scenario(name))
    assert not outcome.failed, [str(broken) for broken in outcome.verdict.broken]


@pytest.mark.parametrize("name", scenario_names())
def test_a_scenario_explains_itself_and_expects_something(name: str) -> None:
    plan = scenario(name)
    assert scenario_text(name).startswith("# ")
    assert plan.title
    assert any(is_expectation(happening.step) for happening in plan.happenings)
    assert read_plan(write_plan(plan)) == plan


def waiting() -> list[str]:
    return [name for name in scenario_names() if any(each.when.after for each in scenario(name).happenings)]


@pytest.mark.parametrize("name", waiting())
def test_whatever_a_scenario_waits_for_comes_true(name: str) -> None:
    plan = scenario(name)
    always_true = AtLeastRebalances(0)
    reached = [Happening(each.when, always_true) for each in plan.happenings if each.when.after]
    assert not play(replace(plan, happenings=(*plan.happenings, *reached)), judge=False).failed


def test_eager_members_pause_for_longer_than_cooperative_ones() -> None:
    eager, cooperative = (play(scenario(f"{kind}-pause")).verdict.counts for kind in ("eager", "cooperative"))
    assert eager.ownerless_s > 4 * cooperative.ownerless_s > 0


def test_a_scenario_that_does_not_exist_is_refused_with_one_like_it() -> None:
    with pytest.raises(ValueError, match="did you mean first-join"):
        scenario("frist-join")
    with pytest.raises(ValueError, match="known are"):
        scenario("qqqq")


def test_a_file_is_found_before_a_scenario_and_a_mistake_in_it_is_named_with_it(tmp_path: Path) -> None:
    own = tmp_path / "mine.yaml"
    own.write_text("story: Mine\nmembers: [anna]\nhappenings:\n  - at 0s: anna joins\n", encoding="utf-8")
    assert find_plan(str(own)).title == "Mine"
    assert find_plan("first-join") == scenario("first-join")
    own.write_text("story: Mine\nmembers: [anna]\nhappenings:\n  - at 0s: bob joins\n", encoding="utf-8")
    with pytest.raises(UnreadableStory, match=r"mine.yaml: line 4 .*there is no member 'bob'"):
        find_plan(str(own))
    own.write_bytes(b"\xff\xfe")
    with pytest.raises(UnreadableStory, match="is no text"):
        find_plan(str(own))
