"""The connection of a client: frames in, requests handled in order, responses out."""
