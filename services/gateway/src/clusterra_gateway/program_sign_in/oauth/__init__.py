"""What all ways to sign in a program share: the shape of OAuth 2.0, and the page where a person consents."""
