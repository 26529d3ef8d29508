"""The OpenID Connect issuers that people sign in at."""
