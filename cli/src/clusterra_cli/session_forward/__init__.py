"""A port of this machine behind which its user's session is: for one browser, and for nobody else on the machine."""
