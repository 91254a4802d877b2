"""Values of `source` in a decision event. Other values are those of fallbacks after a late plan."""

PLANNED = "plan"
OBSERVED = "observed"  # made by another leader; the snapshot has the inputs of Bellwether's shadow plan
