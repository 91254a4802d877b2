"""Tests of the benchmark's own tools: a benchmark that accepts a wrong answer measures nothing."""
