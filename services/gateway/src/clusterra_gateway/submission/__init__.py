"""What a job's submission is: its fields, its bodies, the files that are staged for it, and its messages on the bus."""
