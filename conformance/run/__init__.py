"""Runs the stories: their verdicts, reports, and the page docs/conformance.md."""
