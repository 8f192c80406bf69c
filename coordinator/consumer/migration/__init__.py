"""How a group of one protocol becomes one of the other, and members of the classic protocol in a consumer group."""
