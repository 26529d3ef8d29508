"""Duplex byte streams over requests and replies: numbered chunks of bounded size, with credit-based flow control."""
