"""Every message of this project: one file for each subject, one attribute for each field.

Field names are Kafka's own in snake_case. A field without a default must be given. Times are in milliseconds, and a
topic id is sixteen bytes.
"""
