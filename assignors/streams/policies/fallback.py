"""FallbackPriorTaskAssignor: what to do while nobody knows the lags
(docs/reference/streams.md#fallbackpriortaskassignor).

Whoever ran a task goes on running it, whatever the load; the rest is placed by StickyTaskAssignor, and a probing
rebalance is asked for in the hope of lags.
"""

from bellwether_kafka.assignors.streams.application import AssignmentConfigs, StreamsPlan, StreamsView
from bellwether_kafka.assignors.streams.placing import StickyTask


def assign_fallback_prior(view: StreamsView, configs: AssignmentConfigs) -> StreamsPlan:
    """Never looks at lags or racks; always probing."""
    return StickyTask(view, configs, preserve=True, legacy=True).assign(probing=True)
