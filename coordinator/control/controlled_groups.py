"""The groups of a process: the runner and the role of each."""

from dataclasses import dataclass
from typing import Protocol

from bellwether_kafka.coordinator.control.handed_back import HandedBack
from bellwether_kafka.coordinator.control.orders import GroupOrders
from bellwether_kafka.coordinator.membership import Event, Fatal, MembershipView, State


class Runner(Protocol):
    """The part of `runtime.GroupRunner` that is used here."""

    fatal: Fatal | None

    @property
    def membership(self) -> MembershipView: ...
    def post(self, event: Event) -> None: ...
    @property
    def policy(self) -> str: ...
    @property
    def rules_refused(self) -> str: ...
    @property
    def digest(self) -> str: ...
    @property
    def orders(self) -> GroupOrders: ...
    def follow(self, orders: GroupOrders, news: str) -> None: ...
    def begin_rebalance(self, order: str) -> None: ...


@dataclass(slots=True)
class ControlledGroup:
    """The state of one group of this process."""

    runner: Runner
    active: bool  # Bellwether leads it or tries to
    handed_back: HandedBack | None = None
    leads: bool = False
    hands_over_until: float = 0.0  # monotonic; 0: not handing over


def given_up(runner: Runner) -> bool:
    return runner.fatal is not None or runner.membership.state is State.STOPPED


def leads(runner: Runner) -> bool:
    """Returns whether Bellwether leads the group: it is a member, which it stays only while it leads."""
    member = runner.membership
    joined = bool(member.member_id) and member.generation >= 0 and member.state is not State.LEAVING
    return joined and not given_up(runner)
