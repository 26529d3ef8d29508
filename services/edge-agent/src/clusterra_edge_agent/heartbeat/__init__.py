"""What the agent tells: heartbeats and what happened to workers."""
