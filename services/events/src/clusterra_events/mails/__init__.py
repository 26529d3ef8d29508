"""Mails: tells people by SMTP of what they asked for, each at their own address only."""
