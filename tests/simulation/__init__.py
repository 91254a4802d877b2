"""A deterministic simulation: one thread, one seed, a virtual clock; the real membership machine, decide and guard."""
