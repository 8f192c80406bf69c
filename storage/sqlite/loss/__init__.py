"""Notices what happens to the files of a store that is being written: deleted, replaced, cut off, or copied alone."""
