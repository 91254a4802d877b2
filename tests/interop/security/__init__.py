"""Rights, logins, certificates and refusals on real brokers."""
