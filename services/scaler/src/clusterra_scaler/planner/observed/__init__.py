"""What is known of a cluster at a decision: observations, their history, the stored state, and the resulting supply."""
