"""Layouts of Kafka requests that the client library lacks: the Describe calls of KIP-848 and KIP-1071, and the
heartbeat of KIP-1071 as a member sends it that leaves.

The library reads them as resources of this package. Names and order of fields are those of the wire format. In the
heartbeat's request a structure that is absent is a byte of -1, and a list that is absent has no elements that matter.
"""
