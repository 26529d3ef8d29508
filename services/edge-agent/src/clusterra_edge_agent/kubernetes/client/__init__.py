"""The API server: calls, answers, watches."""
