"""Signs programs in: by the browser of this machine, or by the device flow."""
