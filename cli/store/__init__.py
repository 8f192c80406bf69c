"""`regroup events`, `replay`, `verify`, `trim` and `copy`: the commands that read, trim or copy a store."""
