"""The request handlers of a cluster: one module per use case."""
