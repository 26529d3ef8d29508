"""Why a job waits, in words for a person, from the last decision. Pure."""
