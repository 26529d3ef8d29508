"""What a route is, and the descriptions of the API that follow from the table of routes."""
