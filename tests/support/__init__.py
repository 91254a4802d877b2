"""Worlds for tests: embedded brokers, and brokers that only answer what an observer asks."""
