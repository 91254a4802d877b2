"""What the simulation has in place of Kafka: nodes, the group in their memory, topics and the network."""
