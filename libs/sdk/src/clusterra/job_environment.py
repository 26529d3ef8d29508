"""The environment of jobs that are given none."""

DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"
"""The PATH of a job. Paths of another machine would lead nowhere."""
DEFAULT_ENVIRONMENT = (f"PATH={DEFAULT_PATH}",)
"""The environment that a job gets: that of the caller's machine would say nothing on a worker."""
