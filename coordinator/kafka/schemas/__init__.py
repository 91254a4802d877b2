"""Layouts of Kafka requests that the client library does not know: KIP-848's and KIP-1071's Describe calls.

The library reads them as resources of this package; names and order of fields are those of the wire.
"""
