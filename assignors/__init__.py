"""Pure assignment: a view of the world in, a plan out. No IO, no clock, no randomness that is not an argument."""
