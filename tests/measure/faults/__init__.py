"""What goes wrong around an instance, row by row: `python -m tests.measure.faults`."""
