"""What runs simulated members: the driver and timers of a consumer, its application and faults, and a producer."""
