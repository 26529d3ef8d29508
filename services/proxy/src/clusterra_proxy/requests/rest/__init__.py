"""Passes reads on to slurmrestd, in the version that the client speaks, as far as the client may see the answer."""
