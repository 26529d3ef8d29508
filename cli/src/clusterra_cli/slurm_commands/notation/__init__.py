"""How Slurm writes columns, lists of nodes, sizes, states and times."""
