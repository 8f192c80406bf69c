"""Groups of the consumer protocol (KIP-848): ConsumerGroupHeartbeat, targets, reconciliation, and their events."""
