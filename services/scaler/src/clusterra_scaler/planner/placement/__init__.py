"""Which jobs use which workers, and which workers are bought."""
