"""`make soak MINUTES=`: the lab under a random load and random troubles; what was lost, doubled or left at its end."""
