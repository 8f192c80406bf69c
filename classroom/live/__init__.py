"""Timelines of groups whose events are still being written, and the documents of the page that shows them."""
