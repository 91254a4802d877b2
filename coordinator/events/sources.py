"""Which answer a rebalance got, as `source` of a decision names it; other names are of answers after a late plan."""

PLANNED = "plan"
OBSERVED = "observed"  # another leader's: the snapshot is what Bellwether's own plan was made from
