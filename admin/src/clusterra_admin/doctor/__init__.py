"""`clusterra-admin doctor`: checks every dependency of an installation from inside it, and says what to do."""
