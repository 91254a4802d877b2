"""The last gate before the bytes for a Streams application leave: one bad byte stops a whole instance of it
(docs/reference/client-quirks.md#java-streams-threads). It reads the JoinGroup answer again and trusts bytes and
cluster view only."""

from bellwether_kafka.assignors.shared import RawGroup
from bellwether_kafka.assignors.streams import StreamsDecision
from bellwether_kafka.assignors.streams.members import decode_streams
from bellwether_kafka.assignors.streams.sending import validate_bytes, validate_own, validate_plan
from bellwether_kafka.coordinator.planning.guard import MESSAGE_BYTES_MAX, outer_findings


def inspect_streams(
    raw: RawGroup, decision: StreamsDecision, *, message_bytes_max: int = MESSAGE_BYTES_MAX
) -> tuple[str, ...]:
    """The findings on one decision for the round that `raw` describes; () means that the bytes may leave."""
    findings = outer_findings(raw, decision.assignments, message_bytes_max)
    if findings:
        return findings
    decoded = decode_streams(raw)
    theirs = [m.member_id for m in decoded.members]
    if theirs != [m.member_id for m in decision.raw.others]:
        return ("the plan was made for other members",)
    blobs = dict(decision.assignments)
    own = [
        finding
        for m in raw.members
        if m.member_id in raw.own_member_ids
        for finding in validate_own(blobs[m.member_id])
    ]
    if decision.shutdown:
        return tuple(own)
    return (
        *own,
        *validate_plan(decision.view, decision.plan),
        *validate_bytes(decoded, decision.tasks, decision.out, [blobs[member_id] for member_id in theirs]),
        *_held_back(decision),
    )


def _held_back(decision: StreamsDecision) -> tuple[str, ...]:
    """What is sent is the target without what is withheld: nothing more and nothing less."""
    sent = decision.out.holder >= 0
    wrong = int((sent == (decision.withheld | (decision.plan.active < 0))).sum())
    return (f"{wrong} tasks are neither sent nor withheld, or both",) if wrong else ()
