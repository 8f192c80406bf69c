"""Lessons about consumer groups, each in one YAML file: a text, a run of the lab, a question, a replay and a task."""
