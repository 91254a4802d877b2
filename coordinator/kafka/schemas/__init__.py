"""Layouts of Kafka requests that the client library lacks: the Describe calls of KIP-848 and KIP-1071.

The library reads them as resources of this package. Names and order of fields are those of the wire format.
"""
