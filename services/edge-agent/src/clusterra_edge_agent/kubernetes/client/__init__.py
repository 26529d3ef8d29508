"""The client of the API server: calls, models of its answers, watches."""
