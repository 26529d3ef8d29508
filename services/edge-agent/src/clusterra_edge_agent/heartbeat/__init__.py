"""What the agent reports: heartbeats and worker events."""
