"""Posts requests to URLs that users chose, within bounds."""
