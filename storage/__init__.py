"""The append-only store of records: one contract, three drivers. It knows no event by name."""
