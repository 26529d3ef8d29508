"""Answers of slurmrestd that are passed on to clients as they are, apart from what the client may not see."""
