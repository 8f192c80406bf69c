"""The responses of a connection until they are sent: in the order of their requests, bounded, and some from a cache."""
