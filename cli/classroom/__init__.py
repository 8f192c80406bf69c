"""The commands `story`, `export`, `view` and `step`: a group as sentences, pictures, a page, and key by key."""
