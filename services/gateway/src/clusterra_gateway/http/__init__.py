"""Serves HTTP: routes, requests, responses, problems, OpenAPI. Imports no other room."""
