"""What is sent when the plan is late, fails or does not pass the guard: a cheaper plan, the previous one, or nothing.

Nothing means that Bellwether leaves the group and a member takes over; that is the caller's part.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Generic, TypeVar

from bellwether_kafka.assignors.shared import Decision, GroupPlan, RawGroup, RefusalCause, RefusalError
from bellwether_kafka.coordinator.planning.streams_config import Arrivals

# Of the time until the deadline, what the policy's own plan may use; the cheap one gets the rest.
PLAN_SHARE = 0.7

P = TypeVar("P", bound=GroupPlan)
P_co = TypeVar("P_co", bound=GroupPlan, covariant=True)


class Source(Enum):
    """Which answer was sent."""

    PLAN = "plan"
    CHEAP = "cheaper plan"
    PREVIOUS = "previous plan"


@dataclass(frozen=True, eq=False)  # slots break a frozen generic that is made by its alias (Python 3.11)
class Proposal(Generic[P_co]):
    """A decision and what the guard found wrong with it. `arrivals` of processes are remembered once it is delivered,
    None: those that are known stay. `record` is what it was made from, where that can be recorded."""

    decision: Decision[P_co]
    findings: tuple[str, ...]
    arrivals: Arrivals | None = None
    record: object = None


@dataclass(frozen=True, eq=False)
class Chosen(Generic[P_co]):
    """The answer, and why those before it were not taken."""

    decision: Decision[P_co]
    source: Source
    reasons: tuple[str, ...]


Attempt = Callable[[], Awaitable[Proposal[P]]]


def previous_answer(previous: Decision[P] | None, raw: RawGroup) -> Decision[P] | None:
    """The previous decision as an answer for this rebalance, if it is one: same protocol, members and metadata bytes.

    Then every claim is what it was, so what was right to send is right again. Streams threads change a byte whenever
    they join again, so for them this serves rebalances in which nobody spoke anew.
    """
    if previous is None or previous.raw.protocol != raw.protocol or previous.raw.own_member_ids != raw.own_member_ids:
        return None
    if previous.raw.members != raw.members:
        return None
    return replace(previous, raw=raw, plan=previous.plan.in_generation(raw.generation))


async def first_valid(
    attempts: Sequence[tuple[Source, Attempt[P]]], trouble: tuple[str, ...] = ()
) -> tuple[Chosen[P], Proposal[P]]:
    """Tries in order, and returns the first answer without findings. An attempt raises RefusalError or TimeoutError.

    Raises RefusalError where none will do, or a final one was raised; `trouble` is why some were not even tried.
    """
    reasons: list[str] = []
    for source, attempt in attempts:
        try:
            proposal = await attempt()
        except TimeoutError:
            reasons.append(f"{source.value}: not ready in time")
        except RefusalError as error:
            if error.refusal.final:
                raise
            reasons.append(f"{source.value}: {error}")
        else:
            if not proposal.findings:
                return Chosen(proposal.decision, source, tuple(reasons)), proposal
            reasons.append(f"{source.value}: {'; '.join(proposal.findings)}")
    raise RefusalError(RefusalCause.PLAN, "; ".join((*trouble, *reasons)) or "no answer at all")
