"""`files`: the cluster's bucket from the command line."""
