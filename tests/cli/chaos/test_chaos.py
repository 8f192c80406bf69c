"""`regroup chaos run`, `list`, `show` and `words`."""

import re
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from regroup.cli.chaos.run import canonical_rows
from regroup.lab.plan.yaml_format import InvalidScenario, read_plan
from regroup.lab.planted_bugs.registry import BUGS
from regroup.lab.search.seed_run import MAX_CALLBACKS
from regroup.lab.simulation.run import NO_REBALANCE_STORM
from tests.cli.chaos.conftest import SOUND, STORY
from tests.cli.conftest import RunCommand

LATE = """\
scenario: There is no time to recover
members: [anna]
faults end at: 30s
recovers within: 1ms
steps:
  - at 29.9s: anna joins
"""
DESCRIBED = """\
scenario: A group of the consumer protocol is described
topics: {orders: 5, clicks: 5, views: 5}
members:
  anna: {protocol: consumer, topics: [orders, clicks, views]}
  ben: {protocol: consumer, topics: [orders, clicks, views]}
faults end at: 20s
steps:
  - at 0s: anna joins
  - at 8s: ben joins
  - at 12s: an administrator describes group lab
"""
OF_THE_FIRST_VERSION = """\
# A story of 0.1.
story: Two share a topic
topics: {orders: 2}
members:
  anna: {habits: ["pause:20s"]}
happenings:
  - at 0s: anna joins
well again within: 30s
"""


def test_a_sound_run_shows_its_plan_its_events_and_its_counts_and_ends_with_0(story: Path, chaos: RunCommand) -> None:
    code, out, err = chaos("run", "--scenario", story)
    assert (code, err) == (0, "")
    assert "at 0s: anna joins" in out
    assert "generation-started" in out
    assert "1 rebalance, 0 members removed" in out
    assert "1 of 1 expectation held." in out
    assert "No invariant was violated" in out


def test_a_run_that_breaks_something_ends_with_1_and_the_line_that_replays_it(
    wrong_story: Path, chaos: RunCommand
) -> None:
    code, out, _ = chaos("run", "--scenario", wrong_story, "--seed", 3)
    assert code == 1
    assert "Expected at +21.0 s: within 1s the group is Stable with anna. Not so: the members of the group are" in out
    assert f"To run it again: regroup chaos run --seed 3 --scenario {wrong_story}" in out


def test_a_run_that_breaks_something_names_the_command_for_its_story(
    wrong_story: Path, tmp_path: Path, chaos: RunCommand, run_command: RunCommand
) -> None:
    store = tmp_path / "run.db"
    _, out, _ = chaos("run", "--scenario", wrong_story, "--store", store)
    assert f"What each group went through: regroup story {store}" in out
    assert f"The same as a page: regroup view {store}" in out
    assert "Group lab: " in run_command("story", store).out


@pytest.mark.parametrize("names", [(), ("run.db", "run-2.db")])
def test_a_run_that_breaks_something_without_a_store_names_the_commands_that_record_it_and_open_its_page(
    wrong_story: Path,
    tmp_path: Path,
    chaos: RunCommand,
    run_command: RunCommand,
    monkeypatch: pytest.MonkeyPatch,
    names: tuple[str, ...],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in names:
        (tmp_path / name).touch()
    _, out, _ = chaos("run", "--scenario", wrong_story, "--seed", 3)
    record, view = out.partition("To see it as a page: ")[2].strip().split(" && ")
    file = "run-3.db" if names else "run.db"
    assert (record, view) == (
        f"regroup chaos run --seed 3 --scenario {wrong_story} --store {file}",
        f"regroup view {file}",
    )
    assert chaos(*record.split()[2:]).code == 1
    assert "Group lab: " in run_command("story", file).out


def test_a_group_that_does_not_recover_ends_with_3(story: Path, chaos: RunCommand) -> None:
    story.write_text(LATE)
    code, out, _ = chaos("run", "--scenario", story)
    assert code == 3, out


def test_a_store_holds_the_history_for_every_other_command(
    story: Path, tmp_path: Path, chaos: RunCommand, run_command: RunCommand
) -> None:
    store = tmp_path / "groups.db"
    story.write_text(story.read_text() + "  - at 22s: the brokers crash for 2s\n  - at 26s: the disk fails once\n")
    code, out, _ = chaos("run", "--scenario", story, "--store", store)
    assert (code, "coordinator-loaded" in out) == (0, True)
    assert run_command("verify", store).code == 0
    code, out, _ = run_command("events", store)
    assert (code, "assignment-committed" in out) == (0, True)


def test_a_store_holds_the_exchanges_too(
    story: Path, tmp_path: Path, chaos: RunCommand, run_command: RunCommand
) -> None:
    store = tmp_path / "groups.db"
    chaos("run", "--scenario", story, "--store", store)
    code, out, _ = run_command("exchanges", store, "--group", "lab", "--client", "anna", "--api", "SyncGroup")
    assert code == 0
    assert "SyncGroup" in out
    assert (
        run_command("story", store).out.endswith("owns nothing.\n")
        or "Not recorded" not in run_command("story", store).out
    )


def test_an_existing_file_is_not_overwritten_by_a_store(story: Path, tmp_path: Path, chaos: RunCommand) -> None:
    store = tmp_path / "groups.db"
    store.write_text("a diary")
    code, _, err = chaos("run", "--scenario", story, "--store", store)
    assert (code, store.read_text()) == (2, "a diary")
    assert "name another file" in err


def test_two_processes_with_different_hash_seeds_have_the_same_history(story: Path, chaos: RunCommand) -> None:
    code, out, _ = chaos("run", "--scenario", story, "--check-determinism")
    assert (code, "Deterministic: " in out) == (0, True)


def test_two_processes_with_different_hash_seeds_describe_violations_in_the_same_words(
    tmp_path: Path, chaos: RunCommand
) -> None:
    path = tmp_path / "descriptions.yaml"
    path.write_text(DESCRIBED)
    code, out, _ = chaos("run", "--scenario", path, "--bug", "description-shows-no-target", "--check-determinism")
    assert (code, "Deterministic: " in out) == (0, True), out


def test_the_rows_that_are_compared_contain_the_violations() -> None:
    rows = canonical_rows(read_plan(DESCRIBED), "description-shows-no-target")
    assert len([each for each in rows if "it shows [], and stored is [" in each]) == 1


def test_two_runs_that_differ_end_with_4(story: Path, chaos: RunCommand, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regroup.cli.chaos.run.rows_in_new_process", lambda hash_seed, *_: ["same", f"by {hash_seed}"])
    code, out, _ = chaos("run", "--scenario", story, "--check-determinism")
    assert code == 4
    assert "Row 2 was\n  by 1\nand then\n  by 2" in out


def test_until_leaves_out_later_steps(story: Path, chaos: RunCommand) -> None:
    story.write_text(story.read_text() + "  - at 25s: ben crashes\n")
    _, out, _ = chaos("run", "--scenario", story, "--until", "21s")
    assert "ben crashes" not in out
    assert "faults end at: 21s" in out


def test_a_saved_plan_runs_as_the_seed_it_was_drawn_from(tmp_path: Path, chaos: RunCommand) -> None:
    saved = tmp_path / "seed.yaml"
    _, drawn, _ = chaos("run", "--seed", 8, "--until", "20s", "--save", saved)
    _, read, _ = chaos("run", "--scenario", saved)
    assert read.replace(str(saved), "") == drawn


def test_the_list_has_scenarios_too_that_cannot_be_played_here(
    chaos: RunCommand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scenario with a pattern needs RE2, which is an extra."""

    def cannot(text: str) -> None:
        raise InvalidScenario("a pattern needs RE2: pip install google-re2")

    monkeypatch.setattr("regroup.lab.plan.scenario_files.read_plan", cannot)
    code, out, err = chaos("list")
    assert (code, err) == (0, "")
    assert "Topics appear and grow, and the members of a pattern get their partitions" in out


def test_the_list_names_every_scenario_and_every_bug(chaos: RunCommand) -> None:
    code, out, _ = chaos("list")
    assert code == 0
    for bug in BUGS.values():
        assert re.search(rf"^  {bug.name}  +{re.escape(bug.sentence)}$", out, re.MULTILINE)


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("run", "--scenario", "no-such-story"), "unknown scenario"),
        (("run", "--bug", "two-leader"), "did you mean two-leaders?"),
        (("hunt", "--bug", "nonsense"), "unknown bug: 'nonsense'"),
        (("bugs", "--bug", "nonsense"), "unknown bug: 'nonsense'"),
        (("run", "--until", "soon"), "invalid duration"),
        (("run", "--scenario", "first-join", "--save", "no-such-folder/plan.yaml"), "No such file or directory"),
        (("run", "--scenario", "first-join", "--store", "no-such-folder/groups.db"), "no-such-folder"),
        (("run", "--check-determinism", "--store", "groups.db"), "leave out --store"),
        (("hunt", "--seeds", "9-3"), "invalid seeds: '9-3'"),
        (("hunt", "--jobs", "0"), "at least 1"),
        ((), "required"),
    ],
)
def test_a_mistake_ends_with_2_and_a_hint(words: tuple[str, ...], hint: str, chaos: RunCommand) -> None:
    code, _, err = chaos(*words)
    assert code == 2
    assert hint in err


def test_a_scenario_of_the_first_version_is_refused_in_one_line(tmp_path: Path, chaos: RunCommand) -> None:
    path = tmp_path / "old.yaml"
    path.write_text(OF_THE_FIRST_VERSION)
    assert chaos("run", "--scenario", path) == (
        2,
        "",
        f"regroup chaos: {path}: line 2 (story: Two share a topic): option 'story' of a scenario is now 'scenario'\n",
    )


def test_a_run_that_calls_too_many_callbacks_is_a_storm_that_says_how_to_raise_the_bound(
    story: Path, tmp_path: Path, chaos: RunCommand, run_command: RunCommand
) -> None:
    store, verdicts = tmp_path / "run.db", tmp_path / "verdicts.json"
    options = ("--scenario", story, "--max-callbacks", 150)
    code, out, _ = chaos("run", *options, "--store", store, "--json", verdicts)
    assert code == 1
    assert f"Violated: {NO_REBALANCE_STORM}" in out
    assert "had called 150 callbacks. If the plan is meant to be that large, raise --max-callbacks." in out
    assert f"To run it again: regroup chaos run --scenario {story} --max-callbacks 150\n" in out
    assert "Group lab: " in run_command("story", store).out
    [verdict] = msgspec.json.decode(verdicts.read_bytes())["runs"]
    assert verdict["command"].endswith("--max-callbacks 150")
    assert NO_REBALANCE_STORM in verdict["violations"][0]
    assert chaos("run", "--scenario", story, "--max-callbacks", MAX_CALLBACKS).code == 0


def test_two_processes_have_the_same_storm(story: Path, chaos: RunCommand) -> None:
    unbounded = chaos("run", "--scenario", story, "--check-determinism")
    bounded = chaos("run", "--scenario", story, "--check-determinism", "--max-callbacks", 150)
    assert (unbounded.code, bounded.code) == (0, 0)
    assert bounded.out.splitlines()[-1] != unbounded.out.splitlines()[-1]


def test_the_help_names_the_bound_of_a_run(chaos: RunCommand) -> None:
    assert f"(default: {MAX_CALLBACKS:,})" in " ".join(chaos("run", "--help").out.split())


@pytest.mark.parametrize("word", ["run", "hunt", "list", "bugs"])
def test_the_help_of_every_subcommand_has_an_example(word: str, chaos: RunCommand) -> None:
    code, out, _ = chaos(word, "--help")
    assert code == 0
    assert f"\nregroup chaos {word}" in out


def test_the_timeline_has_plan_members_and_coordinator_in_one_order_of_time(chaos: RunCommand) -> None:
    _, out, _ = chaos("run", "--scenario", "zombie-commits-after-removal")
    wanted = [
        "+20.0 s  the plan     ben becomes a zombie",
        "+28.019 s  coordinator  member-removed  member ben, last seen +18.019 s",
        "+28.019 s  coordinator  rebalance-started  because member ben expired",
        "+30.025 s  anna         revoked orders 0-1, and owns nothing",
        "+32.0 s  ✓ expected   within 10s the group is Stable with anna",
        "+40.0 s  ben          wakes as a zombie",
        "+40.001 s  coordinator  refuses OffsetCommit of ben: UNKNOWN_MEMBER_ID (20 times, until +59.002 s)",
        "+60.0 s  ✓ expected   ben has seen UNKNOWN_MEMBER_ID",
    ]
    places = [out.find(line) for line in wanted]
    assert -1 not in places, [line for line, place in zip(wanted, places, strict=True) if place < 0]
    assert places == sorted(places)
    assert "4 of 4 expectations held." in out


def test_an_expectation_that_fails_cannot_be_read_as_what_happened(tmp_path: Path, chaos: RunCommand) -> None:
    path = tmp_path / "too-early.yaml"
    path.write_text(STORY.replace("- at 20s: EXPECTATION", "- at 10s: anna crashes\n  - at 20s: anna was removed"))
    code, out, _ = chaos("run", "--scenario", path)
    assert code == 1
    assert "Expected at +20.0 s: anna was removed. Not so: no member was removed." in out


@pytest.mark.parametrize(
    ("scenario", "counts"),
    [
        ("failover-in-reconciliation", "4 group epochs, 4 target assignments, 1 member removed, "),
        ("rolling-upgrade", "2 rebalances, 3 group epochs, 3 target assignments, 0 members removed, "),
        ("zombie-commits-after-removal", "2 rebalances, 1 member removed, "),
    ],
)
def test_a_run_counts_rebalances_of_classic_groups_and_epochs_and_targets_of_the_others(
    scenario: str, counts: str, chaos: RunCommand
) -> None:
    [line] = [line for line in chaos("run", "--scenario", scenario).out.splitlines() if "deadlines handled" in line]
    assert line.startswith(counts)


def test_a_violated_invariant_is_told_with_its_exchange_and_in_full_only_if_asked(chaos: RunCommand) -> None:
    words = ("run", "--scenario", "zombie-commits-after-removal", "--bug", "zombie-may-commit")
    code, out, _ = chaos(*words)
    assert code == 1
    assert (
        "Violated: A response is one that the state of the group allows.\n"
        "  Seen at +40.001 s, at position 35 of the store: OffsetCommit, not a member, in Stable: due was "
        "UNKNOWN_MEMBER_ID, and the response was NONE. OffsetCommit of ben for generation 1 to group lab, which was "
        "Stable in generation 2 with 1 member(s), was answered NONE."
    ) in out
    assert "RequestedOffset(" not in out
    assert "RequestedOffset(" in chaos(*words, "--verbose").out


def test_steps_that_never_happen_are_named(tmp_path: Path, chaos: RunCommand) -> None:
    path = tmp_path / "never.yaml"
    path.write_text(STORY.replace("EXPECTATION", SOUND) + "  - after generation 9 begins: anna crashes\n")
    _, out, _ = chaos("run", "--scenario", path)
    assert "Never happened" in out
    assert "  after generation 9 begins: anna crashes" in out


def test_verdicts_are_written_as_junit_and_as_json(
    story: Path, wrong_story: Path, tmp_path: Path, chaos: RunCommand
) -> None:
    junit, json = tmp_path / "verdict.xml", tmp_path / "verdict.json"
    for path, failures in ((story, 0), (wrong_story, 1)):
        chaos("run", "--scenario", path, "--junit", junit, "--json", json)
        suite = ElementTree.parse(junit).getroot()
        assert (suite.get("tests"), suite.get("failures")) == ("1", str(failures))
        (run,) = msgspec.json.decode(json.read_bytes())["runs"]
        assert len(run["violations"]) == failures
        assert [each["found"] is None for each in run["expectations"]] == [not failures]
    assert "Not so: the members of the group are anna, ben" in str(suite[0][0].get("message"))
    assert "To run it again: regroup chaos run" in str(suite[0][0].text)


def test_show_prints_a_scenario_that_can_be_run(tmp_path: Path, chaos: RunCommand) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(chaos("show", "first-join").out)
    assert chaos("run", "--scenario", path).code == 0
    assert chaos("show", path).out == path.read_text()


def test_words_has_each_step_trigger_option_and_invariant(chaos: RunCommand) -> None:
    code, out, _ = chaos("words")
    assert code == 0
    for words in (
        "MEMBER becomes a zombie",
        "within WITHIN the group is Stable with MEMBERS",
        "after MEMBER is elected leader",
        "session timeout",
        "No record is skipped.",
        "A group with members has one leader, and the leader is one of them.",
    ):
        assert words in " ".join(out.split()), words
    assert "MEMBER becomes a zombie" in chaos("words", "zombie").out
    assert chaos("words", "zombie").out.count("\n") < 20
    assert chaos("words", "no such word").code == 2


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("members: {Жанна: {}}\nsteps: [{at 0s: Жанна joins}]", "a name begins with a letter from a to z"),
        ("members: {anna: {session timeout: 1s}}", "heartbeat interval (3s) must be below session timeout (1s)"),
    ],
)
def test_a_mistake_in_a_scenario_is_told_in_the_words_of_the_file(
    content: str, says: str, tmp_path: Path, chaos: RunCommand
) -> None:
    path = tmp_path / "mistake.yaml"
    path.write_text(f"scenario: A mistake\n{content}\n")
    code, _, err = chaos("run", "--scenario", path)
    assert (code, says in err) == (2, True), err


def test_a_file_that_is_not_there_is_no_misspelt_scenario(chaos: RunCommand) -> None:
    assert "nofile.yaml: there is no such file" in chaos("run", "--scenario", "nofile.yaml").err


def test_a_refused_run_does_not_show_its_plan_first(story: Path, chaos: RunCommand) -> None:
    code, out, err = chaos("run", "--scenario", story, "--bug", "no-such-bug")
    assert (code, out) == (2, "")
    assert "no-such-bug" in err
