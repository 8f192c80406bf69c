"""What stories are written with: the broker under test, group members, offsets, expectations, groups to start from."""
