"""The simulated network: hosts, links, connections, and what was lost or late on them."""
