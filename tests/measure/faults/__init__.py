"""What goes wrong around a sidecar, row by row: `python -m tests.measure.faults`."""
