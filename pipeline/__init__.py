"""Spark jobs over Bellwether's events: tables and estimated weights.

Importing this package imports no pyspark: the command line starts without it.
"""


class PipelineError(Exception):
    """What a user has to put right; one sentence."""
