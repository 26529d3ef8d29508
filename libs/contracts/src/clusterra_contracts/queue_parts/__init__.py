"""A large queue snapshot in parts of a bounded size: equal records once, with columns of what differs between them."""
