"""The proxy: the only Clusterra code that talks to slurmrestd."""
