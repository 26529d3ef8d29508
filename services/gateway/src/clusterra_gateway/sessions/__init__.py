"""Interactive sessions: jobs that serve a page, such as Jupyter, and the way of browsers to it."""
