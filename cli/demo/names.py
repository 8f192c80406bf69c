"""Who and what appears in the demonstration."""

GROUP, TOPIC = "shop", "orders"
MEMBERS = ("anna", "ben", "carla")
COLOURS = {"anna": "black on cyan", "ben": "black on yellow", "carla": "black on magenta"}
SESSION_TIMEOUT_MS = 3_000
