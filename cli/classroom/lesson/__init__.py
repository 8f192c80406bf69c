"""The command `regroup lesson`: a lesson in the terminal, the list of lessons, and the check of a file."""
