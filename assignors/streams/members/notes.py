"""Sentences for people about what was odd in one round. They decide nothing."""

import numpy as np

from bellwether_kafka.assignors.streams.members.claims import ThreadClaims
from bellwether_kafka.assignors.streams.members.process_map import DecodedStreams, ProcessMap
from bellwether_kafka.protocol.messages import STREAMS_VERSION_MAX

_LISTED = 5
_DEADLINE_FROM = 7


def member_warnings(decoded: DecodedStreams, process_map: ProcessMap) -> list[str]:
    """Members that cannot be read, contradictions inside a process, old and new versions."""
    ids = [m.member_id for m in decoded.members]
    known = {m: reason for m, reason in decoded.bad.items() if m not in process_map.outsiders}
    lines = list(process_map.warnings)
    for rows, fate in ((process_map.outsiders, "gets no tasks"), (known, "stays the thread that it was")):
        lines += [f"member {ids[m]} cannot be read ({rows[m]}) and {fate}" for m in list(rows)[:_LISTED]]
    if process_map.version < _DEADLINE_FROM and process_map.processes:
        lines.append(
            f"the group is served with version {process_map.version}, which carries no time of the next rebalance"
        )
    if process_map.future:
        lines.append(f"members newer than version {STREAMS_VERSION_MAX} take part as one process without state")
    return lines


def state_warnings(claims: ThreadClaims, decoded: DecodedStreams, trouble: str | None) -> list[str]:
    """Unknown lags, false claims, members that did not come back."""
    ids = [m.member_id for m in decoded.members]
    lines = [f"lags are not known, tasks stay where they are: {trouble}"] if trouble else []
    lines += [f"member {ids[m]} claims partitions that it was never given" for m in claims.refused[:_LISTED]]
    silent = [ids[m] for m in np.flatnonzero(claims.silent)[:_LISTED].tolist()]
    if silent:
        lines.append(f"did not join again, taken to hold what they were given: {', '.join(silent)}")
    return lines
