"""The only Clusterra code that speaks with slurmrestd."""
