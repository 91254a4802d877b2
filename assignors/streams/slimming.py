"""A decision whose bytes are too many: what members can do without.

Every thread gets the map of all hosts, the same bytes for each, and a broker keeps them all in one record of the group.
The maps only serve interactive queries, so they go before the group is given up
(docs/reference/reliability.md#oversized-group-records).
"""

from dataclasses import replace

import numpy as np

from bellwether_kafka.assignors.streams.decision import StreamsDecision
from bellwether_kafka.assignors.streams.sending import HostMaps, encode_assignments


def without_host_maps(decision: StreamsDecision, why: str) -> StreamsDecision | None:
    """The same decision with empty host maps, and a warning that says `why`; None where there are none to leave out.

    Members are shown empty maps and not maps that lack their endpoint: those would make them rejoin for ever.
    """
    hosts = any(process.endpoint for process in decision.view.processes)
    if decision.shutdown or not hosts or decision.out.blind.all():
        return None
    out = replace(decision.out, blind=np.ones(decision.out.rows, dtype=np.bool_))
    theirs = iter(encode_assignments(decision.tasks, HostMaps.none(), out))
    own = decision.raw.own_member_ids
    return replace(
        decision,
        out=out,
        assignments=tuple([(m, blob if m in own else next(theirs)) for m, blob in decision.assignments]),
        warnings=(*decision.warnings, f"interactive queries are told no hosts: {why}"),
    )
