"""A planted bug changes what happens, and leaves no trace."""

import pytest

from regroup.lab.planted_bugs.registry import BUGS, UnknownBug, bug_named
from tests.lab import bug_scenes_of_generations, bug_scenes_of_members, bug_scenes_of_patience
from tests.lab.bug_scenes import SCENES, Scene

FILES = (bug_scenes_of_generations, bug_scenes_of_patience, bug_scenes_of_members)


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.bug.name)
def test_a_bug_changes_what_happens_while_it_is_planted_and_nothing_afterwards(scene: Scene) -> None:
    assert scene.play() == scene.right
    with scene.bug.plant():
        assert scene.play() == scene.wrong
    assert scene.play() == scene.right


def test_every_bug_has_its_scene() -> None:
    assert [scene.bug for scene in SCENES] == list(dict.fromkeys(scene.bug for scene in SCENES))
    assert {scene.bug.name for scene in SCENES} == set(BUGS)


def test_every_bug_says_what_it_does_in_a_sentence() -> None:
    for bug in BUGS.values():
        assert bug.sentence.endswith("."), bug.name
        assert "  " not in bug.sentence, bug.name


def test_a_bug_that_nobody_planted_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(UnknownBug, match="Did you mean two-leaders"):
        bug_named("two-leader")
