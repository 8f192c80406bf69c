"""Running stories: verdicts, reports, and the page docs/conformance.md."""
