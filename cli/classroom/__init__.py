"""The commands `story`, `export` and `view`: one group's history as sentences, pictures and a page."""
