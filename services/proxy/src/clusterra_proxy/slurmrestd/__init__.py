"""The client of slurmrestd: requests, answers and errors, in every API version that the proxy speaks."""
