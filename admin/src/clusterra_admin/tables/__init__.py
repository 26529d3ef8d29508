"""The tables of all services: created, checked, and described to AWS."""
