"""Tests of the pipeline on real brokers and local Spark."""
