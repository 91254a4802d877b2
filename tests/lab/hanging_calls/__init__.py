"""What a call that hangs outside of the brokers does to heartbeats: `python -m tests.lab.hanging_calls`."""
