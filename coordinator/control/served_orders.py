"""Orders for groups that brokers assign by plans of Bellwether. Plans follow the orders in force; here a broker is made
to ask for a new plan when they change.

Each broker may have a Bellwether beside it, and each of these reads the same orders. Of the living instances that have
served a group, the first by id begins the rebalance for an order; the others only record the order. What the newest
plan of an instance lacks is known to that instance alone, so it begins that rebalance itself. If the first one dies
over an order, the other instances notice that the order is not followed (`runtime.PlansInForce`).
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Protocol

from bellwether_kafka.assignors.shared import Rule
from bellwether_kafka.coordinator.control.active_role import Instances
from bellwether_kafka.coordinator.control.order_kinds import OrderKind
from bellwether_kafka.coordinator.control.orders import Orders, order_news
from bellwether_kafka.coordinator.control.records import Order, PlacementOrder

CHANGED = "the orders in force have changed since the newest plan"


class ServedGroups(Protocol):
    """Groups that their brokers assign by plans of this process (`runtime.PlansForBrokers`)."""

    def policies(self) -> Mapping[str, str]:
        """Returns the policy of each group whose broker has been given a plan since the start."""

    def planned_rules(self, group: str) -> tuple[Rule, ...]:
        """Returns the rules that the newest plan of the group follows."""

    def planned_incompletely(self) -> Mapping[str, str]:
        """Returns the groups whose newest plan may lack orders, because the group, a topic or a member was not known
        yet, each with the cause of a rebalance that is needed without orders, too, "" for none. A group is returned
        once, when all are known."""

    def begin_rebalance(self, group: str, cause: str) -> None: ...


class ServedOrders:
    """The orders on placement with which this process has last compared each served group. `ended` has the reasons, by
    key, of orders that this instance ended; `done` withdraws an order that has been carried out."""

    def __init__(
        self,
        served: ServedGroups,
        orders: Orders,
        instances: Instances,
        ended: Mapping[str, str],
        done: Callable[[Order], None],
    ) -> None:
        self._served = served
        self._orders = orders
        self._instances = instances
        self._ended = ended
        self._done = done
        self._in_force: dict[str, tuple[PlacementOrder, ...]] = {}
        self._groups: Collection[str] = ()  # served, by the last update

    def update(self, own_groups: Collection[str], now_ms: int) -> None:
        """Begins a rebalance in served groups where pins, bans or evacuations have changed, where the newest plan lacks
        some, a rack or a capacity, or where one is ordered. Leaves out `own_groups`, which this process leads."""
        groups, incomplete = self._served.policies().keys() - own_groups, self._served.planned_incompletely()
        self._groups = groups
        self._in_force = {group: orders for group, orders in self._in_force.items() if group in groups}
        self._follow(groups, incomplete, now_ms)

    def changed(self, targets: Iterable[str], now_ms: int) -> None:
        """Does the same for orders alone, and for these of the groups."""
        self._follow([group for group in targets if group in self._groups], {}, now_ms)

    def _follow(self, groups: Iterable[str], incomplete: Mapping[str, str], now_ms: int) -> None:
        for group in groups:
            cause = self._cause(group, incomplete.get(group), now_ms)
            if cause:
                self._served.begin_rebalance(group, cause)
            again = self._orders.in_force(OrderKind.REBALANCE, group, now_ms)
            if again is not None and self._instances.is_first_to_serve(group):
                self._done(again)
                self._served.begin_rebalance(group, again.sentence)

    def acts_on(self, group: str) -> bool:
        """Returns whether the group is served, and this is the first of its living instances."""
        return group in self._groups and self._instances.is_first_to_serve(group)

    def _cause(self, group: str, lacked: str | None, now_ms: int) -> str:
        """Returns why the broker should ask again, "" if it should not. `lacked`: see `planned_incompletely`, None for
        a group that is not among them."""
        in_force, before = self._orders.of(group, now_ms).placements, self._in_force.get(group)
        self._in_force[group] = in_force
        cause = "" if lacked is None else order_news((), in_force, now_ms, self._ended) or lacked
        if cause:
            return cause
        rules = _rules(in_force)  # an order may have ended since the incomplete plan, as that of a member that is back
        if before is None:  # the first plan since the start
            is_followed = self._served.planned_rules(group) == rules
            return "" if is_followed else order_news((), in_force, now_ms, self._ended) or CHANGED
        if rules == _rules(before) or not self._instances.is_first_to_serve(group):
            return ""
        return order_news(before, in_force, now_ms, self._ended) or CHANGED


def _rules(orders: Collection[PlacementOrder]) -> tuple[Rule, ...]:
    return tuple(order.rule for order in orders)
