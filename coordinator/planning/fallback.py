"""Chooses what is sent if the plan is late, fails or does not pass the guard: a cheaper plan, the previous plan, or
nothing.

If there is nothing to send, the caller makes Bellwether leave the group, and a member takes over.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Generic, TypeVar

import structlog

from bellwether_kafka.assignors.shared import Decision, GroupPlan, RawGroup, RefusalCause, RefusalError
from bellwether_kafka.coordinator.planning.inspection import misdirected
from bellwether_kafka.coordinator.planning.streams_config import Arrivals

# Share of the time until the deadline for the configured policy's plan; the cheaper plan gets the rest.
PLAN_SHARE = 0.7

P = TypeVar("P", bound=GroupPlan)
P_co = TypeVar("P_co", bound=GroupPlan, covariant=True)

log = structlog.get_logger(__name__)


class Source(Enum):
    """Which of the answers was sent."""

    PLAN = "plan"
    CHEAP = "cheaper plan"
    PREVIOUS = "previous plan"


@dataclass(frozen=True, eq=False)  # slots break a frozen generic that is made by its alias (Python 3.11)
class Proposal(Generic[P_co]):
    """A decision and the guard's findings. `arrivals` of processes replace the known ones once the plan is delivered;
    None: keep the known ones. `record`: the input of the plan, if it can be recorded."""

    decision: Decision[P_co]
    findings: tuple[str, ...]
    arrivals: Arrivals | None = None
    record: object = None


@dataclass(frozen=True, eq=False)
class Chosen(Generic[P_co]):
    """The answer, and why earlier attempts were not used."""

    decision: Decision[P_co]
    source: Source
    reasons: tuple[str, ...]


Attempt = Callable[[], Awaitable[Proposal[P]]]


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


async def first_valid(
    raw: RawGroup, attempts: Sequence[tuple[Source, Attempt[P]]], trouble: tuple[str, ...] = ()
) -> tuple[Chosen[P], Proposal[P]]:
    """Makes the attempts in order and returns the first valid answer to the rebalance that `raw` describes.

    Raises RefusalError if no answer is valid, or at once if an attempt raises a final one. `trouble`: why some attempts
    could not be made.
    """
    reasons: list[str] = []
    for source, attempt in attempts:
        try:
            proposal = await valid(raw, attempt)
        except RefusalError as error:
            if error.refusal.final:
                raise
            reasons.append(f"{source.value}: {error}")
        else:
            return Chosen(proposal.decision, source, tuple(reasons)), proposal
    raise RefusalError(RefusalCause.PLAN, "; ".join((*trouble, *reasons)) or "no answer at all")


async def valid(raw: RawGroup, attempt: Attempt[P]) -> Proposal[P]:
    """Returns what the attempt makes. Raises RefusalError for a plan with findings, for one that was made for another
    rebalance, and for whatever the attempt raises."""
    try:
        proposal = await attempt()
    except RefusalError:
        raise
    except TimeoutError as error:
        raise RefusalError(RefusalCause.PLAN, "not ready in time") from error
    except Exception as error:
        log.exception("plan_failed", group=raw.group_id, generation=raw.generation)
        raise RefusalError(RefusalCause.PLAN, f"{type(error).__name__}: {error}") from error
    findings = (*misdirected(raw, proposal.decision), *proposal.findings)
    if findings:
        raise RefusalError(RefusalCause.PLAN, "; ".join(findings))
    return proposal
