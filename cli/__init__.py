"""The command line `regroup`: for each command its arguments, which are quick to load, and its job."""
