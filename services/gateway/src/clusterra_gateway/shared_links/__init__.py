"""Links that show one job, read only, to whoever has them, until they expire or are revoked."""
