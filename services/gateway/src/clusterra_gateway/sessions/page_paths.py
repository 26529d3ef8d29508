"""The paths of sessions on their origin."""

ROOT = "/sessions"
ENTRY = f"{ROOT}/enter"
"""Where a ticket is redeemed."""


def page_path(cluster: str, job_id: str = "") -> str:
    """The path below which a session is served; without a job, that of a cluster's sessions."""
    return f"{ROOT}/{cluster}/{job_id}" if job_id else f"{ROOT}/{cluster}"
