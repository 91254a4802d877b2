"""The lead on live brokers: how it is taken over, kept, shared and lost."""
