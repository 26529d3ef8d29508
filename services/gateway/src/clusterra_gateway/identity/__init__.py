"""Who makes a request, and how people sign in."""
