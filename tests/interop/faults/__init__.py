"""What goes wrong around a sidecar, row by row: see `tests.interop.fault_table`."""
