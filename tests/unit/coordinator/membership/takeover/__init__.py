"""Take-overs of groups that a member leads."""
