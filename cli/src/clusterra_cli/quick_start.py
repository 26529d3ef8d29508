"""What makes the start of a program shorter, without a change of what it does."""

import gc
import os

GARBAGE_THRESHOLD = 20_000
"""Objects that are made before Python looks for garbage. Its own 2,000 are made some hundred times by imports alone."""


def start_quickly() -> None:
    """Look for garbage less often, and let pydantic look for no plugins: it reads the data of all packages for them."""
    gc.set_threshold(GARBAGE_THRESHOLD, 10, 10)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
