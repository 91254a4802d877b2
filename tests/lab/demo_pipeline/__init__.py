"""The loop from load to assignment on real brokers: skewed load, samples, Spark, weights, members with even load."""
