"""The service: membership of consumer groups, planning for them, and what operators see of it."""
