"""The topics of a cluster as a value, and the digests of them that are kept."""

from regroup.coordinator.topics import MAX_HASHED_NAMES, TopicMetadata, TopicsImage


def test_the_digest_of_a_subscription_is_computed_once() -> None:
    image = TopicsImage([TopicMetadata("AAAAAAAAAAAAAAAAAAAAAQ", "orders", 3)])

    digest = image.metadata_hash(("orders",))

    assert digest == image.metadata_hash(("orders",)) != 0
    assert len(image._hashes) == 1


def test_digests_are_kept_of_a_limited_number_of_names() -> None:
    image = TopicsImage([TopicMetadata("AAAAAAAAAAAAAAAAAAAAAQ", "orders", 3)])
    digest = image.metadata_hash(("orders",))
    unknown = tuple(f"unknown{number}" for number in range(MAX_HASHED_NAMES // 10))

    for number in range(25):
        image.metadata_hash((*unknown, f"other{number}"))
        assert sum(map(len, image._hashes)) <= MAX_HASHED_NAMES

    assert image.metadata_hash(("orders",)) == digest
