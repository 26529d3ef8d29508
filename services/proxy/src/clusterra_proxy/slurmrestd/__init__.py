"""What slurmrestd is asked and answers, in whatever version it speaks."""
