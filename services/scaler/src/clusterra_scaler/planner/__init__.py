"""What a cluster needs and what may go: pure functions of what is known and the time."""
