"""Spark jobs over Bellwether's events: tables, estimated weights, reports and backtests.

Importing this package imports no pyspark: the service uses `pipeline.records` without it.
"""


class PipelineError(Exception):
    """What a user has to put right; one sentence."""
