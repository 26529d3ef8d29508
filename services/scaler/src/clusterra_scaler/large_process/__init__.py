"""Large clusters: their control loops run in a process of their own, beside that of all other clusters."""
