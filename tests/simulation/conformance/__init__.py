"""The model of the group against a real broker: what both are asked, and how their answers are compared."""
