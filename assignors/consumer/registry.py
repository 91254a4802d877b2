"""Lookups by name: assignors by protocol name, policies by configured name, plug-ins by entry point."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from bellwether_kafka.assignors.consumer.chain import (
    Balance,
    ConsumerAssignor,
    Locality,
    PlacementStage,
    PolicyStage,
    TopicBalance,
)
from bellwether_kafka.assignors.consumer.load_aware import LoadAware, capacities_of_nobody
from bellwether_kafka.assignors.consumer.operator_rules import OperatorRules
from bellwether_kafka.assignors.consumer.range import RangeAssignor
from bellwether_kafka.assignors.consumer.round_robin import RoundRobinAssignor
from bellwether_kafka.assignors.consumer.sticky import CooperativeStickyAssignor, StickyAssignor
from bellwether_kafka.assignors.shared import (
    ClaimKind,
    Clock,
    GroupView,
    Rule,
    UnknownNameError,
    Weights,
    _listed,
    load_plugins,
    no_clock,
)
from bellwether_kafka.protocol.messages import STICKY

# Protocol names are a wire contract, not an algorithm. kafka-go's rack-affinity has no JVM counterpart: sticky with
# racks does what the name promises, and keeps partitions in place.
BUILT_IN: Mapping[str, ConsumerAssignor] = MappingProxyType(
    {
        "range": RangeAssignor(),
        "roundrobin": RoundRobinAssignor(),
        "RoundRobinAssigner": RoundRobinAssignor(),
        "sticky": StickyAssignor(),
        "cooperative-sticky": CooperativeStickyAssignor(),
        "rack-affinity": StickyAssignor(),
    }
)
KAFKA, STICKY_MIN_CHURN, RACK_FIRST, LOAD_AWARE = "kafka", "sticky-min-churn", "rack-first", "load-aware"
TOPIC_BALANCE = "topic-balance"
POLICIES = (KAFKA, LOAD_AWARE, RACK_FIRST, STICKY_MIN_CHURN, TOPIC_BALANCE)
# The stages that follow sticky placement and balance.
SOFT: Mapping[str, tuple[PolicyStage, ...]] = MappingProxyType(
    {RACK_FIRST: (Locality(),), TOPIC_BALANCE: (TopicBalance(),)}
)
OF_ANY_PROTOCOL = (STICKY_MIN_CHURN, RACK_FIRST)  # these ignore the protocol when they plan


@dataclass(frozen=True, slots=True)
class Policy:
    """How to assign a group: a stock policy or a plug-in's name, plug-in assignors, and soft stages that run last.

    If a plug-in's name is a protocol name, `kafka` uses it for that protocol; a plug-in named by the policy is always
    used. `load` is the assignor of `load-aware`, whose weights change between rebalances. `clock` measures the stages.
    """

    name: str = KAFKA
    assignors: Mapping[str, ConsumerAssignor] = field(default_factory=dict)
    stages: tuple[PolicyStage, ...] = ()
    load: LoadAware = field(default_factory=LoadAware)
    clock: Clock = field(default=no_clock, compare=False)

    def chain(self, protocol: str) -> tuple[PolicyStage, ...]:
        """Returns the stages for a group with this protocol. Raises UnknownNameError for an unknown protocol."""
        if self.name in self.assignors:
            return (PlacementStage(self.assignors[self.name]), *self.stages)
        if self.name == KAFKA:
            return (PlacementStage(assignor(protocol, self.assignors)), *self.stages)
        if self.name == LOAD_AWARE:
            return (PlacementStage(self.load), *self.stages)
        fewest_moves = (PlacementStage(BUILT_IN["sticky"], racks=False), Balance())
        return (*fewest_moves, *SOFT.get(self.name, ()), *self.stages)

    def leads(self, protocol: str) -> bool:
        """Returns whether the policy can plan for a group with this protocol."""
        try:
            return bool(self.chain(protocol))
        except UnknownNameError:
            return False

    def uses_racks(self, protocol: str) -> bool:
        """Returns whether a plan for this protocol may depend on members' racks."""
        if self.is_plugin or self.rules or self.name in (RACK_FIRST, LOAD_AWARE):
            return True
        return self.name == KAFKA and not isinstance(BUILT_IN.get(protocol), RoundRobinAssignor)

    def cooperative(self, protocol: str) -> bool:
        """Returns whether members under this protocol keep consuming during a rebalance."""
        chosen = self.assignors.get(protocol) or BUILT_IN.get(protocol)
        return chosen is not None and chosen.cooperative

    def claims(self, protocol: str) -> ClaimKind:
        """Returns what claims mean under this protocol. Members of Kafka's other eager assignors revoke everything
        before they join, and no leader reads their claims; this depends on the protocol and not on the policy."""
        if self.cooperative(protocol):
            return ClaimKind.CONSUMED
        if protocol == STICKY:
            return ClaimKind.HISTORY
        return ClaimKind.NOTHING if protocol in BUILT_IN else ClaimKind.CONSUMED

    def capacities_of_nobody(self, group: GroupView) -> list[str]:
        """Returns the names with a capacity that no member has, if the policy balances by load."""
        return capacities_of_nobody(group, self.load.capacity) if self.name == LOAD_AWARE else []

    def with_capacity(self, capacity: Mapping[str, float]) -> "Policy":
        """Returns the policy with members' capacities for `load-aware`, by instance id or client id."""
        return replace(self, load=replace(self.load, capacity=capacity))

    def stock(self, name: str) -> "Policy":
        """Returns the stock policy with this name, with the capacities and weights of this one. Raises
        UnknownNameError."""
        return replace(policy(name), load=self.load)

    def with_weights(self, weights: Weights) -> "Policy":
        """Returns the policy with weights of partitions for `load-aware`."""
        return replace(self, load=replace(self.load, weights=weights))

    @property
    def is_plugin(self) -> bool:
        """Whether its assignor or one of its stages is not Bellwether's."""
        return self.name in self.assignors or any(not isinstance(stage, OperatorRules) for stage in self.stages)

    @property
    def orders(self) -> tuple[OperatorRules, ...]:
        """Those of its stages that apply the operator's orders on placement."""
        return tuple(stage for stage in self.stages if isinstance(stage, OperatorRules))

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The operator's orders on placement that its stages apply."""
        return tuple(rule for stage in self.orders for rule in stage.rules)

    def with_rules(self, rules: tuple[Rule, ...]) -> "Policy":
        """Returns the policy under an operator's orders on placement, which its last stage applies."""
        return replace(self, stages=(*self.stages, OperatorRules(rules))) if rules else self


def assignor(protocol: str, plugins: Mapping[str, ConsumerAssignor] = MappingProxyType({})) -> ConsumerAssignor:
    """Returns the assignor for a protocol name, plug-ins first. Raises UnknownNameError."""
    chosen = plugins.get(protocol) or BUILT_IN.get(protocol)
    if chosen is None:
        raise UnknownNameError(f"unknown assignor {protocol!r}; known are {_listed({*plugins, *BUILT_IN})}")
    return chosen


def policy(name: str, plugins: Mapping[str, object] = MappingProxyType({})) -> Policy:
    """Returns the policy with this configured name. `plugins` come from `load_plugins`.

    Raises UnknownNameError for a policy that is neither stock nor a plug-in.
    """
    assignors = {key: item for key, item in plugins.items() if callable(getattr(item, "assign", None))}
    if name not in POLICIES and name not in assignors:
        raise UnknownNameError(f"unknown policy {name!r}; known are {_listed({*POLICIES, *assignors})}")
    return Policy(name, assignors)  # type: ignore[arg-type]  # structural


def load_policies(names: Iterable[str]) -> dict[str, Policy]:
    """Returns the policies with these configured names. Each plug-in among them is loaded once. Raises
    UnknownNameError."""
    distinct = dict.fromkeys(names)
    plugins = load_plugins(sorted(distinct.keys() - set(POLICIES)), POLICIES)
    return {name: policy(name, plugins) for name in distinct}
