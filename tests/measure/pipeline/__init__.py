"""The pipeline at full size: a million events, killed drivers, throughput, backtests, ranking, spark-submit."""
