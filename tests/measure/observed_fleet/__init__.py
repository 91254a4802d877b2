"""`python -m tests.measure.observed_fleet`: what it costs to observe a thousand groups, the brokers and the process."""
