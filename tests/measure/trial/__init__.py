"""The trial as a user, as a script: what must hold on real brokers, through the command line and HTTP alone."""
