"""What jobs write."""
