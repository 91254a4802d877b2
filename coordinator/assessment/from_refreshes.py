"""Assesses a group from refreshes and from recorded periods. Pure."""

from collections.abc import Sequence

from bellwether_kafka.coordinator.assessment.findings import AssessedFacts, configuration, findings, to_lead
from bellwether_kafka.coordinator.assessment.ghosts import GhostRefreshes
from bellwether_kafka.coordinator.assessment.model import Assessment, Measures, Period, PolicyRow, Prices
from bellwether_kafka.coordinator.assessment.periods import period_of_refreshes
from bellwether_kafka.coordinator.assessment.policies import rows_of
from bellwether_kafka.coordinator.observation import SELF_ASSIGNED, Observation

NO_WEIGHTS = "bytes across racks: no partition has a weight (name a topic under [weights], or give --history)"
NO_RACKS = "what crosses racks: no member names a rack, or no replica has one"
NO_PRICE = "money: no price is set (price_per_gb under [cost])"
LEADERS = "whether consumers may fetch from followers is not known: bytes are counted as read from leaders"


def assess_refreshes(
    refreshes: Sequence[Observation], prices: Prices, ghosts: GhostRefreshes, recorded: Sequence[Period] = ()
) -> Assessment:
    """Returns the assessment of a group. `refreshes` are at least one, in order. The costs are those of the last one
    with a plan."""
    last = refreshes[-1]
    shown = next((refresh for refresh in reversed(refreshes) if refresh.shadow is not None), last)
    rows = rows_of(shown, prices)
    now = rows[0].measures if rows else None
    periods = (period_of_refreshes(refreshes, ghosts), *recorded)
    facts = AssessedFacts.of(last, now, rows, periods, prices.currency)
    reported = findings(facts)
    lag = last.group_lag
    return Assessment(
        group=last.group_id,
        kind=last.kind,
        state=last.state,
        protocol=last.assigned_with,
        members=len(last.members),
        seen_at_ms=last.seen_at_ms,
        verdict=last.verdict,
        lag_verdict=lag.report(0).summary.verdict.value if lag is not None else None,
        rows=rows,
        periods=periods,
        findings=reported,
        configuration=configuration(facts, reported),
        currency=prices.currency,
        item=shown.shadow.decision.plan.words.item if shown.shadow is not None else "partition",
        unknown=_unknown(last, rows, now, prices),
    )


def configuration_to_lead(seen: Observation, prices: Prices) -> str:
    """Returns the lines of bellwether.toml for leading a group, with the policy that costs least."""
    rows = rows_of(seen, prices)
    return to_lead(AssessedFacts.of(seen, rows[0].measures if rows else None, rows, (), prices.currency))


def _without_members(last: Observation) -> str:
    return SELF_ASSIGNED if last.self_assigned else "it has no members"


def _unknown(last: Observation, rows: Sequence[PolicyRow], now: Measures | None, prices: Prices) -> tuple[str, ...]:
    """Returns the reasons for unknown values, which are displayed as dashes."""
    reasons = [last.trouble or f"{_without_members(last)}: there is no assignment"] if now is None else []
    if now is not None and now.cross_rack is None:
        reasons.append(NO_RACKS)
    if now is not None and not prices.weights.of:
        reasons.append(NO_WEIGHTS)
    if now is not None and now.cost_per_hour is None and prices.per_gb is None:
        reasons.append(NO_PRICE)
    if now is not None and now.bytes_per_s is not None and prices.near is None:
        reasons.append(LEADERS)
    reasons += [f"{row.policy}: {row.why}" for row in rows if row.why]
    return tuple(reasons)
