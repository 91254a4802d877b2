"""Task assignment for Kafka Streams applications: KIP-441, KIP-924 and KIP-925 on dense arrays."""
