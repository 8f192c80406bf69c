"""Every message this project speaks, one file a subject, one line a field.

Field names are Kafka's own in snake_case. A field without a default must be given; the others may be left out. Times
are milliseconds, offsets count records, a topic id is sixteen bytes.
"""
