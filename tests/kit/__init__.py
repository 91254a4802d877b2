"""Worlds that tests share, a module for each subject."""
