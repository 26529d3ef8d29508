"""Reading jobs' output from the shared folder."""
