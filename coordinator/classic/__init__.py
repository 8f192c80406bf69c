"""Groups of the classic protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, their deadlines, and the folding of
their events.
"""
