"""What a store holds beside the events of a group: recorded exchanges, and the observations of a simulation."""
