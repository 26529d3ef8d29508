"""Serves a table of routes with aiohttp."""
