"""`clusterra-admin backup` and `restore`: the record and the streams of an installation as files, and back."""
