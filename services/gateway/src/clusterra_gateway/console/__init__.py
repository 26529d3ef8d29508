"""The console in the browser: its page and the files that the page loads."""
