"""What may be sent: the guard checks each answer, and `first_valid` chooses between the plan, a cheaper plan, the
previous plan, and nothing.

The guard (docs/internals/reliability.md#time-budget, step 4) relies only on the JoinGroup answer, the cluster view and
the bytes. If there is nothing to send, the caller makes Bellwether leave the group, and a member takes over.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

import structlog

from bellwether_kafka.assignors.shared import Decision, GroupPlan, RawGroup, RefusalCause, RefusalError
from bellwether_kafka.coordinator.names import listed
from bellwether_kafka.coordinator.planning.planned import Planned, Source

# Share of the time until the deadline for the configured policy's plan; the cheaper plan gets the rest.
PLAN_SHARE = 0.7
MESSAGE_BYTES_MAX = 1_048_588  # the broker's default message.max.bytes
RECORD_SHARE = 0.8
# The rest of a member's record besides blobs and ids: timeouts, client id, host, field sizes.
MEMBER_BYTES = 160
RECORD_BYTES = 128
NAMES_SHOWN = 5

Assignments = tuple[tuple[str, bytes], ...]
P = TypeVar("P", bound=GroupPlan)
Attempt = Callable[[], Awaitable[Planned[P]]]

log = structlog.get_logger(__name__)


async def first_valid(
    raw: RawGroup, attempts: Sequence[tuple[Source, Attempt[P]]], trouble: tuple[str, ...] = ()
) -> Planned[P]:
    """Makes the attempts in order and returns the first valid answer to the rebalance that `raw` describes.

    Raises RefusalError if no answer is valid, or at once if an attempt raises a final one. `trouble`: why some attempts
    could not be made.
    """
    reasons: list[str] = []
    for source, attempt in attempts:
        try:
            planned = await valid(raw, attempt)
        except RefusalError as error:
            if error.refusal.final:
                raise
            reasons.append(f"{source.value}: {error}")
        else:
            return replace(planned, source=source, reasons=tuple(reasons))
    raise RefusalError(RefusalCause.PLAN, "; ".join((*trouble, *reasons)) or "no answer at all")


async def valid(raw: RawGroup, attempt: Attempt[P]) -> Planned[P]:
    """Returns what the attempt makes. Raises RefusalError for a plan with findings, for one that was made for another
    rebalance, and for whatever the attempt raises."""
    try:
        planned = await attempt()
    except RefusalError:
        raise
    except TimeoutError as error:
        raise RefusalError(RefusalCause.PLAN, "not ready in time") from error
    except Exception as error:
        log.exception("plan_failed", group=raw.group_id, generation=raw.generation)
        raise RefusalError(RefusalCause.PLAN, f"{type(error).__name__}: {error}") from error
    findings = (*misdirected(raw, planned.decision), *planned.findings)
    if findings:
        raise RefusalError(RefusalCause.PLAN, "; ".join(findings))
    return planned


def previous_answer(previous: Decision[P] | None, raw: RawGroup) -> Decision[P] | None:
    """Returns the previous decision as an answer for this rebalance, if protocol, members and metadata bytes are the
    same; else None.

    With equal claims the answer that was right before is right again. Streams threads change a byte each time they
    join, so for them this only answers rebalances in which no thread sent new metadata.
    """
    if previous is None or previous.raw.protocol != raw.protocol or previous.raw.own_member_ids != raw.own_member_ids:
        return None
    if _sent(previous.raw) != _sent(raw):
        return None
    return replace(previous, raw=raw, plan=previous.plan.in_generation(raw.generation))


def _sent(raw: RawGroup) -> list[tuple[str, str | None, bytes]]:
    """Returns what members sent. A plan stays valid if the configuration gives them other racks."""
    return [(m.member_id, m.instance_id, m.metadata) for m in raw.members]


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
