"""What goes wrong around an instance that is guarded and emptied: `python -m tests.measure.pauses.faults`."""
