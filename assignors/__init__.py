"""Who gets which partition: pure functions, used on both sides of the socket."""
