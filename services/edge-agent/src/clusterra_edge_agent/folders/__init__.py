"""Files of the shared folder, opened with the rights of the user they are read or written for."""
