"""What stands between the commands and the person: command lines, printing, and the names of local users."""
