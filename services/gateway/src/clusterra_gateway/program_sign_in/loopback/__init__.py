"""Signs in a program on the person's own machine: by the browser, which leads back to the program (RFC 8252)."""
