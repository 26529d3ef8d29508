"""Copies files between the bucket and the shared folder for jobs: before their start, and after their end."""
