"""Committed and transactional offsets, and the records that the emulated Kafka log delays or loses."""
