"""The nodes of a cluster: which one coordinates the group, what they answer while it moves, what a record restores."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import (
    Code,
    CoordinatorAnswer,
    DescribeAnswer,
    HeartbeatAnswer,
    JoinAnswer,
    LeaveAnswer,
    Node,
    SyncAnswer,
)
from tests.simulation.brokers.group_model import Group
from tests.simulation.brokers.hooks import Hooks
from tests.simulation.brokers.member_entries import Record, Reply
from tests.simulation.clock import Clock

NODES = (1, 2, 3)


def node(number: int) -> Node:
    return Node(number, f"broker{number}", 9092)


class Broker:
    """`serve` is what a node does with one request. `planned` hears each plan as its leader sends it."""

    def __init__(
        self,
        clock: Clock,
        random_bits: Callable[[int], int],
        log: Callable[[str], None],
        changed: Callable[[], None],
        planned: Callable[[str, tuple[tuple[str, bytes], ...]], None],
    ) -> None:
        self.clock = clock
        self.coordinator: int | None = 1
        self.loading = False
        self.epoch = 0  # how often the group has been loaded
        self.record: Record | None = None
        self._log = log
        self._hooks = Hooks(
            self._persist,
            lambda name: f"{name}-{UUID(int=random_bits(128), version=4)}",
            changed,
            planned,
            log,
        )
        self.group = Group(clock, self._hooks)

    @property
    def at_work(self) -> bool:
        return self.coordinator is not None and not self.loading

    def _persist(self, record: Record) -> None:
        self.record = record

    # ---- faults ----------------------------------------------------------------------------------------------------

    def resign(self) -> None:
        """The coordinator node stops to be one; rebalances under way are lost."""
        self._log(f"broker{self.coordinator} is not the coordinator any more")
        self.coordinator = None
        self.group.close(Code.NOT_COORDINATOR)

    def elect(self, number: int, loading_s: float) -> None:
        self._log(f"broker{number} loads the group")
        self.coordinator = number
        self.loading = True
        self.clock.after(loading_s, self._loaded)

    def _loaded(self) -> None:
        if not self.loading:
            return
        self.loading = False
        self.epoch += 1
        self.group = Group(self.clock, self._hooks, self.record)
        self._log(f"broker{self.coordinator} coordinates: {self.group.state}, generation {self.group.generation}")
        self._hooks.changed()

    # ---- requests --------------------------------------------------------------------------------------------------

    def serve(self, at: int, client_id: str, request: membership.Request, reply: Reply) -> None:
        if isinstance(request, membership.FindCoordinator):
            coordinator = self.coordinator
            error = Code.COORDINATOR_NOT_AVAILABLE if coordinator is None else Code.NONE
            reply(CoordinatorAnswer(0, error, None if coordinator is None else node(coordinator)))
        elif at != self.coordinator:
            reply(refusal(request, Code.NOT_COORDINATOR))
        elif self.loading:
            reply(refusal(request, Code.COORDINATOR_LOAD_IN_PROGRESS))
        else:
            serve(self.group, request, client_id, reply)


def serve(group: Group, request: membership.Request, client_id: str, reply: Reply) -> None:
    """What the group's coordinator node does with a request about it."""
    match request:
        case membership.Join():
            group.join(request, client_id, reply)
        case membership.Sync():
            group.sync(request, reply)
        case membership.Heartbeat():
            group.heartbeat(request.member_id, request.instance_id, request.generation, reply)
        case membership.Leave():
            group.leave(request, reply)
        case membership.Evict():
            errors = [group.remove(member_id, None) for member_id in request.member_ids]
            reply(LeaveAnswer(0, next((error for error in errors if error), 0)))
        case membership.Describe():
            reply(group.describe())


def refusal(request: membership.Request, error: int) -> Any:
    """The answer with nothing but an error."""
    match request:
        case membership.Join():
            return JoinAnswer(0, error)
        case membership.Sync():
            return SyncAnswer(0, error)
        case membership.Heartbeat():
            return HeartbeatAnswer(0, error)
        case membership.Describe():
            return DescribeAnswer(0, error)
        case _:
            return LeaveAnswer(0, error)


def addressed(answer: Any, request_id: int) -> Any:
    """The answer as the one to this request."""
    return replace(answer, request_id=request_id)
