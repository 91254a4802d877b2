"""JoinGroup and SyncGroup of ours, and what our own subscription lists."""

from bellwether_kafka.coordinator.membership.core import Core
from bellwether_kafka.coordinator.membership.requests import Kind
from bellwether_kafka.coordinator.membership.rules import subscription, with_own
from bellwether_kafka.coordinator.membership.transitions import State

JOIN_SHARE = 0.75  # of our session: so long a JoinGroup may be parked before it is sent again


class Joining:
    def __init__(self, core: Core) -> None:
        self._core = core
        self._sent_at = 0.0
        self.slot_taken = False  # our instance id was a member before we joined
        self.app_topics: tuple[str, ...] = ()
        self.listed = core.config.topics  # by our last JoinGroup

    @property
    def parked_static(self) -> bool:
        """A first static JoinGroup is parked: the broker has made an id that we do not know yet, but the instance id
        removes it. A slot that was there before may belong to another process and stays alone."""
        core = self._core
        return core.requests.waits_for(Kind.JOIN) and core.config.instance_id is not None and not self.slot_taken

    def plan_topics(self, topics: tuple[str, ...]) -> None:
        """The application's topics, as the last plan has them."""
        self.app_topics = topics or self.app_topics

    def send(self) -> None:
        core = self._core
        if not core.requests.waits_for(Kind.JOIN):
            self._sent_at = core.now
        self.listed = self.app_topics if core.leadership.lists_app_topics else core.config.topics
        core.requests.join(subscription(self.listed, streams=core.config.streams), core.reason)

    def begin(self, reason: str) -> None:
        self._core.go(State.JOINING)
        self._core.reason = reason
        self.send()

    def send_overdue(self) -> None:
        """Our JoinGroup may be lost on a connection that died in silence: our heartbeats, on another one, would keep
        our seat, and the round would wait for us as long as its slowest member may take. So it is sent again, on a new
        connection. If the first one has arrived, this one replaces it and changes nothing: only in Stable does it open
        a round (docs/reference/broker-behaviour.md#joingroup-by-state)."""
        core = self._core
        waited_ms = (core.now - self._sent_at) * 1000
        parked = core.is_member and core.requests.waits_for(Kind.JOIN)
        if parked and waited_ms >= core.config.session_timeout_ms * JOIN_SHARE:
            core.requests.abandon(Kind.JOIN)
            self.send()

    def sync(self, assignments: tuple[tuple[str, bytes], ...]) -> None:
        core = self._core
        core.leadership.assignments = with_own(assignments, core.requests.member_id, core.config)
        core.go(State.SYNCING)
        self.send_sync()

    def send_sync(self) -> None:
        self._core.requests.sync(self._core.leadership.assignments)
