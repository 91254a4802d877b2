"""Spark jobs over Bellwether's events: tables, estimated weights, reports and backtests.

Importing this package imports no pyspark: the service uses `pipeline.records` without it.
"""
