"""Edge-agents that speak HTTP."""
