"""`make bench-fleet`: many small clusters beside a big one, on the real services and a stand-in of slurmrestd."""
