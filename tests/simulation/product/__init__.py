"""The real service in the simulation: no copy of the runtime, but the product itself on virtual time."""
