"""The evacuations of a process, with the absence of each that ends with one. `absence` has the rules; `absence_watch`
polls the groups."""

from collections.abc import Callable, Mapping

import structlog

from bellwether_kafka.coordinator.control.absence import AbsenceUpdate
from bellwether_kafka.coordinator.control.group_roles import ControlledGroup, given_up, leads
from bellwether_kafka.coordinator.control.order_kinds import OrderKind
from bellwether_kafka.coordinator.control.orders import Orders
from bellwether_kafka.coordinator.control.records import Absence, PlacementOrder, Record, Stage, Until

log = structlog.get_logger(__name__)


class AbsenceOrders:
    """Evacuations in force. `read` returns whether the control topic has been read. `write` puts a record into force
    and writes it; `end` withdraws an order, with the reason. `serves` returns whether a group's broker assigns it by
    plans of Bellwether and this process acts on its orders."""

    def __init__(
        self,
        groups: Mapping[str, ControlledGroup],
        orders: Orders,
        *,
        read: Callable[[], bool],
        write: Callable[[Record], None],
        end: Callable[[PlacementOrder, str], None],
        now_ms: Callable[[], int],
        serves: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._groups = groups
        self._serves = serves
        self._orders = orders
        self._read = read
        self._write = write
        self._end = end
        self._now_ms = now_ms

    def in_force(self, group: str | None = None) -> tuple[tuple[PlacementOrder, Absence | None], ...]:
        """Returns the orders that end with an absence, of all groups or of one, and the absence of each. If an
        application's member leads the group, only orders whose member was already evacuated are included: its return is
        visible under any leader."""
        if not self._read():
            return ()
        now_ms = self._now_ms()
        in_force = self._orders.all_placements(now_ms) if group is None else self._orders.of(group, now_ms).placements
        tied = [order for order in in_force if order.until is not Until.EXPIRY]
        return tuple((order, self._orders.absence(order)) for order in tied if self._watches(order))

    def is_served(self, group: str) -> bool:
        """Returns whether the group's broker assigns and this process acts on its orders."""
        return group not in self._groups and self._serves(group)

    def _watches(self, order: PlacementOrder) -> bool:
        if order.target not in self._groups:
            return order.until is Until.BACK and self.is_served(order.target)  # a broker's group is never removed from
        state, absence = self._groups[order.target], self._orders.absence(order)
        evacuated = absence is not None and absence.stage is not Stage.EMPTYING
        return leads(state.runner) or (evacuated and state.active and not given_up(state.runner))

    def evacuations(self, group: str) -> tuple[tuple[PlacementOrder, Absence | None], ...]:
        """Returns the group's evacuations in force, with the absence of each that ends with one."""
        now_ms = self._now_ms()
        in_force = self._orders.of(group, now_ms).placements
        evacuations = [order for order in in_force if order.kind is OrderKind.EVACUATE]
        return tuple((order, self._orders.absence(order)) for order in evacuations)

    def observe(self, order: PlacementOrder, update: AbsenceUpdate) -> None:
        """Takes the update of an absence. It is ignored if the order is no longer in force."""
        state, now_ms = self._groups.get(order.target), self._now_ms()
        if not self._orders.is_in_force(order, now_ms) or not self._watches(order):
            return
        if update.ended:
            self._end(order, update.ended)
        # If another leader assigns work to the member, the absence does not go back to an earlier stage.
        elif (
            (state is None or leads(state.runner))
            and update.absence is not None
            and update.absence != self._orders.absence(order)
        ):
            if update.absence.stage is Stage.EMPTY and state is not None and state.runner.membership.hands_over:
                return  # one more rebalance follows, which would wait for the member if it stopped now
            log.info("absence", group=order.target, where=order.where, stage=update.absence.stage.value)
            self._write(update.absence)
