"""The kinds of operators' orders as data. Commands, their help and JSON, records, checks and processes read `ORDERS`: a
new kind of order is a row, its effect (`GroupOrders.given`), and a test."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

VERSION = 1  # of records


class OrderKind(Enum):
    """The kinds of orders, by the names of their commands and records."""

    REBALANCE = "rebalance"
    PAUSE = "pause"
    LEAVE = "leave"
    RELEASE = "release"
    DRAIN = "drain"
    PIN = "pin"
    BAN = "ban"
    EVACUATE = "evacuate"
    APPLY = "apply"


class Takes(Enum):
    """What an order names: the arguments of its command, and the options that are its own."""

    GROUP = ("group",)
    GROUP_OR_ALL = ("group", "everything")
    INSTANCE = ("instance",)
    ITEM_AND_PLACE = ("group", "item", "where")
    PLACE = ("group", "where", "remove")
    PLAN = ("file",)


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderTraits:
    """A kind of order. `help` is that of its command, `says` what the command prints once it is ordered: of the
    arguments, `for_` (the given duration, after " for "), and `ends`, the command that withdraws it.

    `lasts`: it is in force until it ends by itself, or `resume` or `unpin` withdraws it; otherwise it is carried out
    once within ONCE_MS, and the instance that did so withdraws it. `duration` is the default of --for, "" for no end
    unless one is given, None if the command has no --for: the order has no end. `wait_s` is the default of --wait.
    `leaves`: Bellwether is not in the group while it is in force. `places`: plans carry it out, and `unpin` withdraws
    it. `needs_lead`: it needs an instance that leads the group; its command can show the plan that would follow.
    `served`: it also works in a group whose broker assigns by Bellwether's plans. `forcible`: it may be given although
    it has no effect now. `end`: what ends it if no time does, in words."""

    help: str
    says: str = ""
    takes: Takes = Takes.GROUP
    lasts: bool
    duration: str | None = None
    wait_s: float = 0.0
    leaves: bool = False
    places: bool = False
    needs_lead: bool = False
    served: bool = False
    forcible: bool = True
    end: str = "until resume"


ONCE_MS = 60_000  # an order that is carried out once expires after this time
ORDERS: Mapping[OrderKind, OrderTraits] = {
    OrderKind.REBALANCE: OrderTraits(
        help="Have the leader start a rebalance now.",
        says="A rebalance of {group} is ordered.",
        lasts=False,
        wait_s=10.0,
        needs_lead=True,
        served=True,
    ),
    OrderKind.PAUSE: OrderTraits(
        help="Stop Bellwether from starting rebalances of a group; it still serves those that members start.",
        says="Bellwether begins no rebalance in {group}{for_}. {ends} ends that.",
        lasts=True,
        duration="1h",
    ),
    OrderKind.LEAVE: OrderTraits(
        help="Have Bellwether leave a group, or all, and stay out (for a migration, at night), until resume or --for.",
        says="Bellwether leaves {group} and stays out{for_}; {ends} ends that.",
        takes=Takes.GROUP_OR_ALL,
        lasts=True,
        duration="",
        leaves=True,
    ),
    OrderKind.RELEASE: OrderTraits(
        help="Free a group whose members have stopped (for an offset reset, the application reset tool, a conversion),"
        " until members join it again, or resume.",
        says="Bellwether leaves {group} and stays out until members join it; they start under a leader of their own."
        " {ends} before that has Bellwether in it first.",
        lasts=True,
        leaves=True,
        end="until members join",
    ),
    OrderKind.DRAIN: OrderTraits(
        help="Have an instance of Bellwether hand its groups to a standby, without a rebalance.",
        says="An instance of Bellwether hands its groups over.",
        takes=Takes.INSTANCE,
        lasts=False,
        wait_s=10.0,
    ),
    OrderKind.PIN: OrderTraits(
        help="Keep a partition, a topic or a task on one member or in one rack.",
        says="{item} of {group} belongs on {where}{for_}; {ends} ends that.",
        takes=Takes.ITEM_AND_PLACE,
        lasts=True,
        duration="1d",
        places=True,
        needs_lead=True,
        served=True,
        end="until unpin",
    ),
    OrderKind.BAN: OrderTraits(
        help="Keep a partition, a topic or a task off one member or out of one rack.",
        says="{item} of {group} stays off {where}{for_}; {ends} ends that.",
        takes=Takes.ITEM_AND_PLACE,
        lasts=True,
        duration="1d",
        places=True,
        needs_lead=True,
        served=True,
        end="until unpin",
    ),
    OrderKind.EVACUATE: OrderTraits(
        help="Empty a member until it is back, or a rack; tasks with state move when they have caught up elsewhere.",
        says="{where} is to be empty of {group}{for_}; {ends} ends that.",
        takes=Takes.PLACE,
        lasts=True,
        duration="1h",
        places=True,
        needs_lead=True,
        served=True,
        end="until unpin",
    ),
    OrderKind.APPLY: OrderTraits(
        help="Carry out a plan that `plan --out` wrote, until the members change. Refused if the group is not as the"
        " plan found it.",
        says="The plan in {file} is applied to {group} until its members change; {ends} ends that sooner.",
        takes=Takes.PLAN,
        lasts=True,
        places=True,
        needs_lead=True,
        forcible=False,
        end="until members change",
    ),
}


def order_key(kind: OrderKind, target: str) -> str:
    return f"{kind.value}/{target}"
