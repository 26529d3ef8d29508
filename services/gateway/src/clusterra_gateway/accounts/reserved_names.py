"""User names that nobody gets."""

RESERVED = frozenset(
    {
        *("root", "daemon", "bin", "sys", "sync", "games", "man", "lp", "mail", "news", "uucp", "proxy", "www-data"),
        *("backup", "list", "irc", "gnats", "nobody", "_apt", "systemd-network", "messagebus", "sshd", "mysql"),
        *("munge", "slurm", "slurmctld", "slurmd", "slurmdbd", "slurmrestd", "slurmuser"),
        *("operator", "admin", "administrator", "clusterra", "all", "none"),
    }
)
"""Names that no person gets. Slurm matches the name in a token with slurmdbd's users, so the name of a user with more
rights would grant those rights, whatever the uid."""
