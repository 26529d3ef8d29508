"""The decisions of a replica: where they are computed, and how each is recorded, logged and traced."""
