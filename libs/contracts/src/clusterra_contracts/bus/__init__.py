"""The bus: subjects, envelopes, permissions, streams, and the table of all messages."""
