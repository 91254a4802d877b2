"""JoinGroup and SyncGroup of ours, and what our own subscription lists."""

from dataclasses import dataclass, field

from bellwether_kafka.coordinator.membership.core import Core
from bellwether_kafka.coordinator.membership.requests import Kind
from bellwether_kafka.coordinator.membership.rules import subscription, with_own
from bellwether_kafka.coordinator.membership.transitions import State

JOIN_SHARE = 0.75  # of our session: so long a JoinGroup may be parked before it is sent again


@dataclass(slots=True)
class Joining:
    core: Core
    slot_taken: bool = False  # our instance id was a member before we joined
    app_topics: tuple[str, ...] = ()
    listed: tuple[str, ...] = field(init=False)  # by our last JoinGroup
    _sent_at: float = 0.0

    def __post_init__(self) -> None:
        self.listed = self.core.config.topics

    @property
    def parked_static(self) -> bool:
        """A first static JoinGroup is parked: the broker has made an id that we do not know yet, but the instance id
        removes it. A slot that was there before may belong to another process and stays alone."""
        core = self.core
        return core.requests.waits_for(Kind.JOIN) and core.config.instance_id is not None and not self.slot_taken

    def plan_topics(self, topics: tuple[str, ...]) -> None:
        """The application's topics, as the last plan has them."""
        self.app_topics = topics or self.app_topics

    def send(self) -> None:
        core = self.core
        if not core.requests.waits_for(Kind.JOIN):
            self._sent_at = core.now
        self.listed = self.app_topics if core.leadership.lists_app_topics else core.config.topics
        core.requests.join(subscription(self.listed, streams=core.config.streams), core.reason)

    def begin(self, reason: str) -> None:
        self.core.go(State.JOINING)
        self.core.reason = reason
        self.send()

    def send_overdue(self) -> None:
        """Our JoinGroup may be lost on a connection that died in silence: our heartbeats, on another one, would keep
        our seat, and the round would wait for us as long as its slowest member may take. So it is sent again, on a new
        connection. If the first one has arrived, this one replaces it and changes nothing: only in Stable does it open
        a round (docs/reference/broker-behaviour.md#joingroup-by-state)."""
        core = self.core
        waited_ms = (core.now - self._sent_at) * 1000
        parked = core.is_member and core.requests.waits_for(Kind.JOIN)
        if parked and waited_ms >= core.config.session_timeout_ms * JOIN_SHARE:
            core.requests.abandon(Kind.JOIN)
            self.send()

    def sync(self, assignments: tuple[tuple[str, bytes], ...]) -> None:
        core = self.core
        core.leadership.assignments = with_own(assignments, core.requests.member_id, core.config)
        core.go(State.SYNCING)
        self.send_sync()

    def send_sync(self) -> None:
        self.core.requests.sync(self.core.leadership.assignments)
