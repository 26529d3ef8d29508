"""Reads slurmrestd's answers record by record: typed values, and what is done with a record that has none."""
