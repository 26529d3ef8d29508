"""What pending jobs ask for."""
