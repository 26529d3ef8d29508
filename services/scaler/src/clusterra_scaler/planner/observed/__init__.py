"""What is known of a cluster at the moment of a decision, and what outlives it."""
