"""What a search among jobs finds. The proxy looks by it, and the gateway checks what an earlier proxy has found."""

MAX_SEARCH = 100
"""The most characters of a search."""


def is_found(search: str, job_id: str, name: str) -> bool:
    """Whether a search finds a job: by a part of its name in either case, by its id, or by that of its array."""
    return search in (job_id, job_id.partition("_")[0]) or search.casefold() in name.casefold()
