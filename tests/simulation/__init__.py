"""The product's own service over models of brokers and members, on virtual time."""

import os

SEEDS = int(os.environ.get("BELLWETHER_SIM_SEEDS", "16"))  # each takes about three seconds of one core
