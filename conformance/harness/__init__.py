"""The vocabulary of stories: the broker under test, group members, offsets, expectations, groups to start from."""
