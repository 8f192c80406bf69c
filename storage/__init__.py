"""The append-only store of records: one contract, three implementations (memory, SQLite in a thread, SQLite inline).

Records are opaque here: the store knows no event by name.
"""
