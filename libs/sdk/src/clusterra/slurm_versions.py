"""The versions of slurmrestd's API. Without pydantic, for commands that must start fast."""

SLURM_VERSIONS = ("v0.0.45", "v0.0.44", "v0.0.43", "v0.0.42")
"""The one that is asked for first comes first. A cluster serves some of them."""
