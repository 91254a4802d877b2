"""Situations that a seed may play: absences, rolling restarts, storms, commits from outside the group."""
