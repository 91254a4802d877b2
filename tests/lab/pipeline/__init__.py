"""The pipeline at full size: a million events, killed drivers, throughput, ranking, spark-submit."""
