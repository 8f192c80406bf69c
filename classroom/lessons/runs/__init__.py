"""A run of the lab as a lesson sees it: its moments, what can be measured in it, and conditions on that."""
