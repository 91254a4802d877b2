"""Assignors for plain consumer groups: range, round robin and the sticky family, on dense integer arrays."""
