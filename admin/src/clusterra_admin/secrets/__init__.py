"""The secrets of an installation, in one directory."""
