"""The asyncio coordinator: journal, timers, held responses, loading, and the emulated Kafka log."""
