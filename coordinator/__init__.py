"""The service: group membership, transport, cluster reads, the decision path and everything a person touches."""
