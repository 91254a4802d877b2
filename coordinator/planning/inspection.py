"""The guard: the last check of an assignment before it is sent (docs/internals/reliability.md#time-budget, step 4). It
relies only on the JoinGroup answer, the cluster view and the bytes; an empty tuple means that they may be sent."""

from collections import Counter
from collections.abc import Iterable

from bellwether_kafka.assignors.shared import Decision, GroupPlan, RawGroup
from bellwether_kafka.coordinator.names import listed

MESSAGE_BYTES_MAX = 1_048_588  # the broker's default message.max.bytes
RECORD_SHARE = 0.8
# The rest of a member's record besides blobs and ids: timeouts, client id, host, field sizes.
MEMBER_BYTES = 160
RECORD_BYTES = 128
NAMES_SHOWN = 5

Assignments = tuple[tuple[str, bytes], ...]


def inspect(
    raw: RawGroup, decision: Decision[GroupPlan], *, message_bytes_max: int = MESSAGE_BYTES_MAX
) -> tuple[str, ...]:
    """Returns the findings on a decision for the rebalance that `raw` describes.

    A member without an assignment would receive zero bytes, which kills Java consumers
    (docs/internals/broker-behaviour.md#syncgroup-and-heartbeats); an oversized record fails the whole group
    (docs/internals/broker-behaviour.md#limits).
    """
    findings = (*misdirected(raw, decision), *oversized(raw, decision.assignments, message_bytes_max))
    return findings or decision.plan.findings(raw, decision.assignments)


def misdirected(raw: RawGroup, decision: Decision[GroupPlan]) -> tuple[str, ...]:
    """Returns the findings on a decision that was not made for the rebalance that `raw` describes, or does not answer
    each of its members: () if it may go there. Cheap: called for each plan when it arrives, wherever it was made."""
    made = decision.raw
    if made.group_id != raw.group_id:
        return (f"the plan was made for group '{made.group_id}'",)
    if made.generation != raw.generation:
        return (f"the plan was made for generation {made.generation}, not for {raw.generation}",)
    if made != raw:
        return ("the plan was made for other members",)
    return tuple(_ids(raw, decision.assignments))


def record_bytes(raw: RawGroup, assignments: Assignments) -> int:
    """Returns a cautious estimate of the size of the broker's record of this group: all subscriptions and all
    assignments."""
    members = sum(len(m.metadata) + 2 * len(m.member_id) + len(m.instance_id or "") for m in raw.members)
    return RECORD_BYTES + MEMBER_BYTES * len(raw.members) + members + sum(len(b) for _, b in assignments)


def _ids(raw: RawGroup, assignments: Assignments) -> Iterable[str]:
    given = Counter(member_id for member_id, _ in assignments)
    expected = {m.member_id for m in raw.members}
    missing = sorted(expected - given.keys())
    twice = sorted(member_id for member_id, times in given.items() if times > 1)
    unexpected = sorted(given.keys() - expected)
    if missing:
        yield f"no assignment for {listed(missing, NAMES_SHOWN)}"
    if twice:
        yield f"more than one assignment for {listed(twice, NAMES_SHOWN)}"
    if unexpected:
        yield f"an assignment for {listed(unexpected, NAMES_SHOWN)}, not in this generation"


def oversized(raw: RawGroup, assignments: Assignments, message_bytes_max: int) -> tuple[str, ...]:
    """Returns a finding if the group's record is too large."""
    projected, allowed = record_bytes(raw, assignments), int(message_bytes_max * RECORD_SHARE)
    if projected <= allowed:
        return ()
    limit = f"{RECORD_SHARE:.0%} of message_bytes_max ({message_bytes_max})"
    return (f"the group's record would have {projected} bytes, more than {limit}",)
