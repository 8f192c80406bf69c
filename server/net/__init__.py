"""A client's connection: frames in, requests handled in order, responses out."""
