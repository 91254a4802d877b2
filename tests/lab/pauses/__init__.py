"""How long the tasks of a Streams application stand still when an instance restarts, crashes or goes for good."""
