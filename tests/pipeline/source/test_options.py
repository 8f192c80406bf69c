"""The options of the data source `regroup`. No test needs Spark."""

import pytest

from regroup.pipeline.source.data_source import InvalidOption, SourceOptions


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("nosuch", "1", "has no option nosuch; there are group, type, after, until"),
        ("after", "abc", "The option after of the format regroup is a whole number, not 'abc'"),
        ("type", "member-removed,nosuch", "no event type with 'nosuch'; there are .*member-removed.*topic-created"),
    ],
)
def test_an_invalid_option_is_named_with_what_there_is(option: str, value: str, message: str) -> None:
    with pytest.raises(InvalidOption, match=message):
        SourceOptions({"path": "a.db", option: value})


def test_types_of_groups_and_of_the_cluster_are_known() -> None:
    [condition] = SourceOptions({"path": "a.db", "type": "member-removed, topic-created"}).conditions
    assert condition.parameters == ("member-removed", "topic-created")
