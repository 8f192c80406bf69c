"""`regroup events`, `replay`, `verify` and `trim`: the commands that read or trim a store."""
