"""The names of the caller's user on this machine, which may differ from the user's name in the cluster.

Programs ask for the jobs of the user that they run as, as `squeue -u "$USER"` does.
"""

import os


def local_user_names() -> frozenset[str]:
    """The names by which programs know this user: those of the environment, and that of its uid."""
    names = {os.environ.get("USER", ""), os.environ.get("LOGNAME", "")}
    try:
        import pwd

        names.add(pwd.getpwuid(os.getuid()).pw_name)
    except (ImportError, KeyError):
        # Windows has no such list, and a uid of a container has no name.
        pass
    return frozenset(names - {""})


def with_own_name(users: tuple[str, ...], own_name: str) -> tuple[str, ...]:
    """The users that an option names, with the caller's name in the cluster where one is the user of this machine."""
    return (*users, own_name) if local_user_names() & set(users) else users
