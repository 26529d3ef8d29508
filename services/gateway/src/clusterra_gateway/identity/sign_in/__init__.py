"""Sign-in by the browser, the enrolment of new members, and the profile."""
