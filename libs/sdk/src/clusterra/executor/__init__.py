"""Functions of Python as jobs: `ClusterExecutor`."""
