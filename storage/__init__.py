"""The append-only store of records: one interface, three implementations (memory, SQLite in a thread, SQLite inline).

The store never reads the payloads of records, and treats all types of events alike.
"""
