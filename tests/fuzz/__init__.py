"""Bytes from nowhere into every decoder."""
