"""Spark jobs over Bellwether's events: tables and estimated weights.

Importing this package imports no pyspark: the command line starts without it.
"""


class PipelineError(Exception):
    """Raised for what a user has to correct. The message is one sentence."""
