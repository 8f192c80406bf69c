"""The page that shows a group's history in a browser: its document, and its files."""
