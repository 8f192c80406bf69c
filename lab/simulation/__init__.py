"""The simulation: virtual clock, network, disk, brokers and members, and the run that plays a plan on them."""
