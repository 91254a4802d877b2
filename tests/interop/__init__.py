"""Real Kafka: brokers from Maven jars and real clients of several languages, each its own process."""
