"""The broker around the coordinator: TCP, topics, a small partition log."""
