"""The task of writing an assignor: made-up cases, the properties that it must have in them, and its live group."""
