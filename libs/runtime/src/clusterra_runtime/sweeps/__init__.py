"""Background work that visits places again and again."""
