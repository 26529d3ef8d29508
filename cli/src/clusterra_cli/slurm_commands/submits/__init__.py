"""What belongs to a submit: the options of its script, and the spool."""
