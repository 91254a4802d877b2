"""Tests of what the soak judges by."""
