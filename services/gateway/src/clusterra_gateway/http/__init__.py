"""Serving HTTP: routes, requests, answers, problems, OpenAPI."""
