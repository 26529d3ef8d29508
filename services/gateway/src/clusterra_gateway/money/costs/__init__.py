"""What a cluster's jobs and workers cost, as JSON, CSV and in the columns of FOCUS."""
