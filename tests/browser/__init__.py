"""Journeys of people through the console, in a real browser, on a whole lab."""
