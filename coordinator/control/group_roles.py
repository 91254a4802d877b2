"""Makes the groups of this process active or standby, and hands them over to standbys. `active_role` has the rules."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

import structlog

from bellwether_kafka.coordinator.control.active_role import Instances
from bellwether_kafka.coordinator.control.handed_back import HandedBack
from bellwether_kafka.coordinator.control.orders import GroupOrders
from bellwether_kafka.coordinator.membership import ActiveRoleChanged, Event, Fatal, MembershipView, State

HAND_OVER_S = 2.0

log = structlog.get_logger(__name__)


class Kind(Protocol):
    """What the plans of a group depend on (`planning.GroupKind`)."""

    @property
    def policy(self) -> str: ...
    @property
    def rules_refused(self) -> str: ...
    @property
    def digest(self) -> str: ...


class Runner(Protocol):
    """The part of `runtime.GroupRunner` that is used here."""

    fatal: Fatal | None

    @property
    def membership(self) -> MembershipView: ...
    def post(self, event: Event) -> None: ...
    @property
    def kind(self) -> Kind: ...
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


class GroupRoles:
    """The roles of the groups of this process. `heartbeat` sends the heartbeat of this instance after a change. Once it
    is `stopping`, it takes no group over."""

    def __init__(
        self,
        groups: Mapping[str, ControlledGroup],
        instances: Instances,
        *,
        heartbeat: Callable[[], None],
        clock: Callable[[], float],
    ) -> None:
        self.stopping = False
        self._groups = groups
        self._instances = instances
        self._heartbeat = heartbeat
        self._clock = clock

    def update(self, group: str, state: ControlledGroup) -> None:
        member, leading = state.runner.membership, leads(state.runner)
        if state.hands_over_until:
            self._watch_hand_over(group, state, leading=leading)
        elif not state.active:
            reason = "" if self.stopping else self._instances.reason_to_take_over(group)
            if reason:
                self._activate(group, state, reason)
        else:
            better = self._instances.must_yield(group, leading=leading, fenced=not member.has_active_role)
            if better:
                self._deactivate(group, state, f"{better} leads it")
            # this member was fenced, but no known instance claims the group
            elif not member.has_active_role:
                state.runner.post(ActiveRoleChanged(active=True, reason="no other instance of Bellwether leads it"))
        if leading != state.leads:
            state.leads = leading
            self._heartbeat()

    def _activate(self, group: str, state: ControlledGroup, reason: str) -> None:
        log.info("standby_takes_over", group=group, reason=reason, instance=self._instances.own_id)
        state.active = True
        self._heartbeat()  # before joining, so that the fenced instance knows its successor
        state.runner.post(ActiveRoleChanged(active=True, reason=reason))

    def _deactivate(self, group: str, state: ControlledGroup, reason: str) -> None:
        log.info("lead_released", group=group, reason=reason, instance=self._instances.own_id)
        state.active = False
        state.hands_over_until = 0.0
        state.runner.post(ActiveRoleChanged(active=False, reason=reason))
        self._heartbeat()

    def hand_over(self, groups: Iterable[str], reason: str) -> None:
        """Begins to hand over those of the groups that Bellwether leads and that have a standby."""
        limit = self._clock() + HAND_OVER_S
        for group in groups:
            state = self._groups[group]
            if not leads(state.runner) or state.hands_over_until:
                continue
            successors = self._instances.successors(group)
            if not successors:
                log.warning("nobody_to_hand_over_to", group=group, reason=reason)
                continue
            log.info("hands_over", group=group, to=successors[0], reason=reason)
            state.hands_over_until = limit
            state.runner.post(ActiveRoleChanged(active=False, reason=reason))
        self._heartbeat()

    def _watch_hand_over(self, group: str, state: ControlledGroup, *, leading: bool) -> None:
        if not leading:
            self._deactivate(group, state, "handed over")
        elif self._clock() >= state.hands_over_until:
            log.warning("hand_over_failed", group=group, reason="no standby has taken the group in time")
            state.hands_over_until = 0.0
            state.runner.post(ActiveRoleChanged(active=True, reason="no standby has taken the group"))
