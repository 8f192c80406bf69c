"""Stores in a SQLite file: `threaded.open_store` (aiosqlite's thread) and `inline.open_inline_store` (same thread)."""
