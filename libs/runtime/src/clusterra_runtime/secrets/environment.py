"""Secrets in environment variables of the process, such as `env:CLUSTERRA_SECRET_AGENT_KEY`.

Only variables with the prefix are read: whoever may write a reference must not choose from the whole environment.
"""

import os

from clusterra_runtime.secrets.reference import EnvironmentSecret, SecretUnavailable


def read_variable(source: EnvironmentSecret) -> bytes:
    """Returns a variable's value. Raises SecretUnavailable."""
    if not (value := os.environb.get(source.name.encode())):
        raise SecretUnavailable(f"env:{source.name} is not set: give the process this environment variable")
    return value
