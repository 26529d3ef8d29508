"""What pending jobs request from nodes, and what running jobs cost."""
