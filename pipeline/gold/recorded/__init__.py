"""Tables of recorded exchanges: refused requests, heartbeats, and the lag of committed offsets."""
