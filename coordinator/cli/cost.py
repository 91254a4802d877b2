"""The weights with which commands plan and price. Also the traffic between racks (if [weights] is set) and its cost (if
[cost] is set) in `describe`, `plan` and `simulate`."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from bellwether_kafka.assignors.explain import Traffic, cost_per_hour, traffic_of
from bellwether_kafka.assignors.shared import Decision, GroupPlan, Weights
from bellwether_kafka.coordinator.cli.admin import admin_of
from bellwether_kafka.coordinator.cli.topic_weights import WeightsUnreadError, existing, settle, warn_unread
from bellwether_kafka.coordinator.kafka.client import follower_fetching
from bellwether_kafka.coordinator.observation import Observation
from bellwether_kafka.coordinator.settings import CostSettings, Settings, WeightSettings
from bellwether_kafka.coordinator.telemetry import WeightReader

Result = TypeVar("Result")

LIMIT_S = 10.0
PAIRS_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Scales:
    """The scales for plans. `weights`; `cost`: the settings of [cost], None without; `near`: consumers may fetch from
    followers, None if unknown, in which case leaders are assumed."""

    weights: Weights
    cost: CostSettings | None
    near: bool | None

    def of(self, decision: Decision[GroupPlan], *, present: bool = False) -> dict[str, Any]:
        """Returns the traffic across racks under the plan, or at present, as JSON values."""
        flows = traffic_of(decision, self.weights, follower_fetching=bool(self.near), present=present)
        return _document(flows, self.cost)


def cost_of(settings: Settings, seen: Observation) -> dict[str, Any] | None:
    """Returns the weights and the traffic across racks, at present and under Bellwether's plan. None without
    weights."""
    described = _weights(settings, seen)
    if described is None:
        return None
    cost: dict[str, Any] = {"weights": described[0], "present": None, "planned": None, "follower_fetching": None}
    if seen.shadow is None:
        return cost
    scales = Scales(described[1], settings.cost, _near(settings))
    return cost | costs_of(scales, seen.shadow.decision, [seen.shadow.decision])[0]


def scales_for(settings: Settings, seen: Observation) -> Scales | None:
    """Returns the scales for a group, None without weights."""
    described = _weights(settings, seen)
    return None if described is None else Scales(described[1], settings.cost, _near(settings))


def scales_of(settings: Settings, topics: Collection[str], recorded: Weights | None = None) -> Scales | None:
    """Returns the scales for groups that read these topics, None without weights. `recorded` weights take
    precedence."""
    described = group_weights(settings, topics) if recorded is None or not recorded.of else None
    weights = described[1] if described is not None else recorded
    return None if weights is None else Scales(weights, settings.cost, _near(settings))


def costs_of(scales: Scales, now: Decision[GroupPlan], made: Sequence[Decision[GroupPlan]]) -> list[dict[str, Any]]:
    """Returns the traffic across racks before and after each of a series of rebalances. The first one starts from what
    members have when `now` is decided."""
    before, costs = scales.of(now, present=True), []
    for decision in made:
        planned = scales.of(decision)
        costs.append({"present": before, "planned": planned, "follower_fetching": scales.near})
        before = planned
    return costs


def in_words(cost: Mapping[str, Any], after: str = "by the plan") -> list[str]:
    """Returns lines: one for each plan, and one for each pair of racks at present."""
    if cost["present"] is None:
        return []
    by = "the replica in their rack" if cost["follower_fetching"] else "leaders"
    lines = []
    for name, text in (("present", "now"), ("planned", after)):
        plan = cost[name]
        lines.append(
            f"{text}, reading from {by}: {_rate(plan['bytes_per_s'])} of {_rate(plan['total_bytes_per_s'])} cross racks"
            f"{_money(plan)}; {plan['weighed']} of {plan['owned']} partitions have a weight"
        )
    pairs = cost["present"]["by_racks"]
    lines += [f"  {p['from']} -> {p['to']}: {_rate(p['bytes_per_s'])}{_money(p)}" for p in pairs[:PAIRS_SHOWN]]
    if len(pairs) > PAIRS_SHOWN:
        lines.append(f"  and {len(pairs) - PAIRS_SHOWN} more pairs of racks")
    return lines


def short(traffic: Mapping[str, Any]) -> str:
    """Returns a table cell: the traffic across racks and its cost."""
    return f"{_rate(traffic['bytes_per_s'])}{_money(traffic)}"


def _weights(settings: Settings, seen: Observation) -> tuple[dict[str, Any], Weights] | None:
    topics = {topic for member in seen.members for topic, _ in member.owned} | set(seen.lags)
    return group_weights(settings, topics)


def _near(settings: Settings) -> bool | None:
    if settings.cost is not None and settings.cost.follower_fetching is not None:
        return settings.cost.follower_fetching
    return follower_fetching(admin_of(settings.properties), LIMIT_S)


def _document(flows: Traffic, cost: CostSettings | None) -> dict[str, Any]:
    def priced(bytes_per_s: float) -> dict[str, Any]:
        values: dict[str, Any] = {"bytes_per_s": round(bytes_per_s, 3)}
        if cost is not None and cost.price_per_gb is not None:
            money = cost_per_hour(bytes_per_s, cost.price_per_gb)
            values |= {"cost_per_hour": round(money, 9), "currency": cost.currency}
        return values

    ordered = sorted(flows.between.items(), key=lambda item: (-item[1], item[0]))
    return {
        **priced(flows.crossing),
        "total_bytes_per_s": round(flows.total, 3),
        "weighed": flows.weighed,
        "owned": flows.owned,
        "by_racks": [{"from": source, "to": reader, **priced(value)} for (source, reader), value in ordered],
    }


def _money(traffic: Mapping[str, Any]) -> str:
    return f", {traffic['cost_per_hour']:,.4f} {traffic['currency']} per hour" if "currency" in traffic else ""


def _rate(bytes_per_s: float) -> str:
    for unit, size in (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)):
        if bytes_per_s >= size:
            return f"{bytes_per_s / size:,.2f} {unit}"
    return f"{bytes_per_s:,.1f} B/s"


def group_weights(settings: Settings, topics: Collection[str]) -> tuple[dict[str, Any], Weights] | None:
    """Returns the state of the weights of a group's partitions, and the usable ones, for `describe` and `plan`. None if
    no topic is named, or if it cannot be read, which is printed on standard error."""
    if settings.weights is None:
        return None
    config = existing(settings.weights)
    try:
        return _settled(settings.properties, config, lambda reader: (reader.describe(topics=topics), reader.usable()))
    except WeightsUnreadError as error:
        warn_unread(config, error)
        return None


def _settled(
    properties: Mapping[str, str], config: WeightSettings, refresh: Callable[[WeightReader], Result]
) -> Result:
    """Starts a reader and returns what it knows once nothing new has arrived for a while. Raises WeightsUnreadError."""
    reader = WeightReader(properties, config)
    reader.start()
    try:
        settle(reader)
        return refresh(reader)
    finally:
        reader.close()


def weights_in_words(description: Mapping[str, Any]) -> list[str]:
    """Returns a line on the number and age of the weights, and one for each reason why some are not used or changed."""
    least, most = description["age_ms_min"], description["age_ms_max"]
    ages = "" if most is None else f", {least // 1000} to {most // 1000} s old"
    lines = [f"weights from {description['topic']}: {description['used']} of {description['known']} are used{ages}"]
    if description["clamped"]:
        message = "count as more or less than estimated: 1/1000 to 1000 times the median is taken"
        lines.append(f"  {description['clamped']} {message}")
    lines += [f"  {count} not used: {reason}" for reason, count in sorted(description["refused"].items())]
    return lines
