"""What `describe` and `plan` say of traffic between racks once [weights] is set, and of its cost once [cost] is."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assignors.traffic import Traffic
    from coordinator.observe import Observation

LIMIT_S = 10.0
PAIRS_SHOWN = 10


def cost_of(settings: Any, seen: "Observation") -> dict[str, Any] | None:
    """As JSON's values: the weights, and what is read across racks at present and by our plan; None without weights."""
    from assignors.traffic import traffic_of
    from coordinator.cli_pipeline import group_weights

    topics = {topic for member in seen.members for topic, _ in member.owned} | set(seen.lags)
    known = group_weights(settings, topics)
    if known is None:
        return None
    told, weights = known
    found: dict[str, Any] = {"weights": told, "present": None, "planned": None, "follower_fetching": None}
    if seen.shadow is None:
        return found
    decision, near = seen.shadow.decision, _near(settings)
    found["follower_fetching"] = near
    for name, present in (("present", True), ("planned", False)):
        flows = traffic_of(decision, weights, follower_fetching=bool(near), present=present)
        found[name] = _document(flows, settings.cost)
    return found


def in_words(found: Mapping[str, Any]) -> list[str]:
    """A line on each plan, one on each pair of racks at present."""
    if found["present"] is None:
        return []
    by = "the replica in their rack" if found["follower_fetching"] else "leaders"
    lines = []
    for name, text in (("present", "now"), ("planned", "by our plan")):
        plan = found[name]
        lines.append(
            f"{text}, reading from {by}: {_rate(plan['bytes_per_s'])} of {_rate(plan['total_bytes_per_s'])} cross racks"
            f"{_money(plan)}; {plan['weighed']} of {plan['owned']} partitions have a weight"
        )
    pairs = found["present"]["by_racks"]
    lines += [f"  {p['from']} -> {p['to']}: {_rate(p['bytes_per_s'])}{_money(p)}" for p in pairs[:PAIRS_SHOWN]]
    if len(pairs) > PAIRS_SHOWN:
        lines.append(f"  and {len(pairs) - PAIRS_SHOWN} more pairs of racks")
    return lines


def _near(settings: Any) -> bool | None:
    from confluent_kafka.admin import AdminClient

    from coordinator.client_config import librdkafka_properties
    from coordinator.fetching import follower_fetching

    if settings.cost is not None and settings.cost.follower_fetching is not None:
        declared: bool = settings.cost.follower_fetching
        return declared
    return follower_fetching(AdminClient({"log_level": 2, **librdkafka_properties(settings.properties)}), LIMIT_S)


def _document(flows: "Traffic", cost: Any) -> dict[str, Any]:
    from assignors.traffic import cost_per_hour

    def priced(bytes_per_s: float) -> dict[str, Any]:
        found: dict[str, Any] = {"bytes_per_s": round(bytes_per_s, 3)}
        if cost is not None and cost.price_per_gb is not None:
            money = cost_per_hour(bytes_per_s, cost.price_per_gb)
            found |= {"cost_per_hour": round(money, 9), "currency": cost.currency}
        return found

    ordered = sorted(flows.between.items(), key=lambda item: (-item[1], item[0]))
    return {
        **priced(flows.crossing),
        "total_bytes_per_s": round(flows.total, 3),
        "weighed": flows.weighed,
        "owned": flows.owned,
        "by_racks": [{"from": source, "to": reader, **priced(value)} for (source, reader), value in ordered],
    }


def _money(one: Mapping[str, Any]) -> str:
    return f", {one['cost_per_hour']:,.4f} {one['currency']} per hour" if "currency" in one else ""


def _rate(bytes_per_s: float) -> str:
    for unit, size in (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)):
        if bytes_per_s >= size:
            return f"{bytes_per_s / size:,.2f} {unit}"
    return f"{bytes_per_s:,.1f} B/s"
