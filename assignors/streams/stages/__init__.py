"""Soft stages of the policy `streams-ha`, after the systems that KIP-441 studied. Each is off unless configured."""
