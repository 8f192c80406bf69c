"""The text behind the key `?`."""

from typing import Final

HELP: Final = """\
→ n     the next event               home  the first event
← p     the event before             end   the last event
page down, page up                   ten events
g G     the next, the previous rebalance
d D     the next, the previous deadline that ran out
m M     the next, the previous recorded request or response, also between
        events: the clocks run down to it
: /     go to a position (120), a time since the start (90s), a UTC time
o       pass over events about offsets, or show them again
space   play and pause; + and - change the speed
tab     the next group, at the same position of the store
↑ ↓     scroll members, partitions and clocks
e       the event as JSON
x       the request and the response as JSON, where they were recorded
q       quit

State       ▶ is the present state, › may follow; "before": the group came
            from there. The heading names the last move.
Members     ★ leads; ▸ is named by the event. "new": in no generation yet;
            "–": owns nothing; "held": the coordinator has the request and
            has not answered it.
Clocks      What is left of each deadline, and what follows; then sessions,
            by member, where requests were recorded. "≥": it may be more,
            because the times of some heartbeats are not known. A member
            whose request is held has no session clock.
Partitions  The owner. "none, assigned anna": the coordinator has it assigned
            to anna, who gave it up or has not received it. "!!": several own
            it, or believe so (recorded of simulations alone).
Event       "!": a request that went wrong between this event and the next.
Line        The whole history by events: ▒ a rebalance runs, ● is here.

Everything is the state after the event, as `regroup replay --at` has it.
"""
