"""Writes answers: JSON, problems, pages, streams, and the headers of each."""
