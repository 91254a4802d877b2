"""Orders for groups that brokers assign by plans of Bellwether. Plans follow the orders in force; here the process is
told when to compare them (`runtime.Asking` decides whether the broker is to ask for a new plan).

Each broker may have a Bellwether beside it, and each of these reads the same orders. Of the living instances that have
served a group, the first by id begins the rebalance for an order. If the first one dies over an order, the other
instances notice that the order is not followed.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from bellwether_kafka.coordinator.control.active_role import Instances
from bellwether_kafka.coordinator.control.kept_orders import KeptOrders
from bellwether_kafka.coordinator.control.order_kinds import OrderKind


class ServedGroups(Protocol):
    """Groups that their brokers assign by plans of this process (`runtime.PlansForBrokers`)."""

    def policies(self) -> Mapping[str, str]:
        """Returns the policy of each group whose broker has been given a plan since the start."""

    def compare(self, group: str, *, first: bool, ended: Mapping[str, str]) -> None:
        """Compares the newest plan with the orders in force. `first`: this is the first of the living instances that
        serve the group. `ended`: why orders have ended, by their sentences."""

    def begin_rebalance(self, group: str, cause: str) -> None: ...


class ServedOrders:
    """The served groups of this process, none if `served` is None."""

    def __init__(self, served: ServedGroups | None, kept: KeptOrders, instances: Instances) -> None:
        self._served = served
        self._kept = kept
        self._instances = instances
        self._groups: Collection[str] = ()  # served, by the last update

    def policies(self) -> Mapping[str, str]:
        return self._served.policies() if self._served is not None else {}

    def update(self, own_groups: Collection[str]) -> None:
        """Compares every served group but `own_groups`, which this process leads, with its orders."""
        self._groups = self.policies().keys() - own_groups
        self.changed(self._groups)

    def changed(self, targets: Iterable[str]) -> None:
        """Does the same for these of the groups."""
        for group in targets:
            if self._served is None or group not in self._groups:
                continue
            first = self._instances.is_first_to_serve(group)
            self._served.compare(group, first=first, ended=self._kept.ended)
            again = self._kept.in_force(OrderKind.REBALANCE, group)
            if again is not None and first:
                self._kept.withdraw(again.key)
                self._served.begin_rebalance(group, again.sentence)

    def acts_on(self, group: str) -> bool:
        """Returns whether the group is served, and this is the first of its living instances."""
        return group in self._groups and self._instances.is_first_to_serve(group)
