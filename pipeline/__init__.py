"""Spark jobs over Bellwether's events: tables, estimated weights, reports and backtests."""

from bellwether_kafka.pipeline.source import header

__all__ = ["header"]
