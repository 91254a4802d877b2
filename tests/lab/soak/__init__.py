"""The long run: real brokers, mixed clients, random joins, leaves, kills and growth."""
