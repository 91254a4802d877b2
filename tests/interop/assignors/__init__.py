"""The jar's assignors, called alone and by brokers."""
