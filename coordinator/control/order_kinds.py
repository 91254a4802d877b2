"""The kinds of operators' orders, and what commands and processes have to know of each."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

VERSION = 1  # of records


class OrderKind(Enum):
    """The kinds of orders. The target is a group, for DRAIN an instance."""

    LEAVE = "leave"  # leave the group and stay out of it
    RELEASE = "release"  # stay out of the group while it has no member; withdrawn when members have joined
    PAUSE = "pause"  # lead, but begin no rebalance
    APPLY = "apply"  # place items as a written plan does; withdrawn when the members have changed
    REBALANCE = "rebalance"  # begin one now; withdrawn by the instance that began it
    DRAIN = "drain"  # hand all groups that the target leads over to standbys; withdrawn likewise


class PlacementKind(Enum):
    """The kinds of orders on placement in a group, which `assignors.shared.rules` defines."""

    PIN = "pin"
    BAN = "ban"
    EVACUATE = "evacuate"  # a ban of everything


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderTraits:
    """What commands and processes have to know of a kind of order. `lasts`: it is in force until it ends by itself, or
    `resume` or `unpin` withdraws it; otherwise it is carried out once, and the instance that did so withdraws it.
    `leaves`: Bellwether is not in the group while it is in force. `places`: plans carry it out, and `unpin` withdraws
    it. `needs_lead`: it needs an instance that leads the group. `served`: it also works in a group whose broker assigns
    by Bellwether's plans. `of_instance`: its target is an instance, not a group. `forcible`: it may be given although
    it has no effect now. `end`: what ends it if no time does, in words."""

    lasts: bool
    leaves: bool = False
    places: bool = False
    needs_lead: bool = False
    served: bool = False
    of_instance: bool = False
    forcible: bool = True
    end: str = "until resume"


ORDER_TRAITS: Mapping[OrderKind, OrderTraits] = {
    OrderKind.LEAVE: OrderTraits(lasts=True, leaves=True),
    OrderKind.RELEASE: OrderTraits(lasts=True, leaves=True, end="until members join"),
    OrderKind.PAUSE: OrderTraits(lasts=True),
    OrderKind.APPLY: OrderTraits(lasts=True, places=True, needs_lead=True, forcible=False, end="until members change"),
    OrderKind.REBALANCE: OrderTraits(lasts=False, needs_lead=True, served=True),
    OrderKind.DRAIN: OrderTraits(lasts=False, of_instance=True),
}
PLACEMENT_TRAITS = OrderTraits(lasts=True, places=True, needs_lead=True, served=True)


def order_key(kind: OrderKind, target: str) -> str:
    return f"{kind.value}/{target}"
