"""Classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, their deadlines, and the folding of their events."""
