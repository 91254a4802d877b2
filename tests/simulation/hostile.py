"""A member that does its group harm, as far as an authenticated client can: it claims everything, says nonsense in its
userData, sends a megabyte of it, never syncs, or comes and goes without end.
"""

from collections.abc import Callable

import numpy as np

from bellwether_kafka.assignors import shared
from bellwether_kafka.assignors.shared.claims import CheckedClaims
from bellwether_kafka.coordinator import membership
from bellwether_kafka.coordinator.membership import Code
from bellwether_kafka.protocol.messages import ConsumerProtocolSubscription
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.simulation.members import Member

HUGE = 200_000  # bytes of userData; five of its joins fill a broker's record
# Those that a group can live with for as long as it exists stay to the end of a seed.
LASTING = ("claims everything", "claims the last generation", "keeps what it had", "talks nonsense")
MISDEEDS = (*LASTING, "talks too much", "never syncs", "flaps")


class Hostile(Member):
    """Its partitions are lost to the others as long as it is a member; it owns nothing that counts."""

    misdeed = ""
    given: frozenset[TopicPartition] = frozenset()  # what it holds by right, and does not consume
    had: frozenset[TopicPartition] = frozenset()  # all that it was ever given

    @property
    def lasting(self) -> bool:
        return self.misdeed in LASTING

    def start(self) -> None:
        if not self.lasting:
            self.misdeed = self.world.rng.choice(LASTING if self.world.lasting_hostile else MISDEEDS)
        self.world.log(f"{self.name} {self.misdeed}")
        super().start()

    def own(self, owned: set[TopicPartition]) -> None:
        """Whatever it is given, it consumes nothing."""

    def _subscription(self, protocol: str) -> bytes:
        rng, topics = self.world.rng, self.world.subscribed
        if self.misdeed == "claims everything":
            everything = tuple(TopicPartition(topic, p) for topic in topics for p in range(-1, 30))
            return ConsumerProtocolSubscription(3, topics, None, everything * 2, (1 << 31) - 1, "nowhere").encode()
        if self.misdeed == "claims the last generation":
            everything = tuple(TopicPartition(topic, p) for topic in topics for p in range(30))
            return ConsumerProtocolSubscription(3, topics, None, everything, self.generation).encode()
        if self.misdeed == "keeps what it had":
            return ConsumerProtocolSubscription(3, topics, None, tuple(sorted(self.had)), self.generation).encode()
        if self.misdeed == "talks nonsense":
            noise = rng.randbytes(rng.randint(0, 60))
            return ConsumerProtocolSubscription(3, (*topics, "t\udcff"[:1], ""), noise, (), -5, "").encode()
        if self.misdeed == "talks too much":
            return ConsumerProtocolSubscription(1, topics, b"\x7f" * HUGE).encode()
        return super()._subscription(protocol)

    def _sync(self, assignments: tuple[tuple[str, bytes], ...]) -> None:
        if self.misdeed != "never syncs":
            super()._sync(assignments)

    def _synced(self, answer: membership.SyncAnswer) -> None:
        if answer.error:
            self._trouble(answer.error)
            self._rejoin_soon()
            return
        self.state = "stable"
        self.given = frozenset(self._given(answer.assignment)) if answer.assignment else frozenset()
        self.had |= self.given
        if self.misdeed == "flaps":
            self._after(self.world.rng.uniform(0.2, 6.0), self._flap)
        elif self._leads:
            self._watch_metadata(self.generation)  # harm is done by what it claims, not by how it leads

    def _joined(self, answer: membership.JoinAnswer) -> None:
        if answer.error != Code.INCONSISTENT_GROUP_PROTOCOL:
            super()._joined(answer)

    def _flap(self) -> None:
        if self._node is not None:
            leave = membership.Leave(
                0, membership.Node(self._node, "", 0), "g", 5_000, self.member_id, self.instance_id, ""
            )
            ignore: Callable[[object], None] = lambda _: None  # noqa: E731 - nobody waits for it
            self.world.send(self.client, 1, self._node, leave, 5.0, ignore, ignore)
        self._forget()
        self._after(self.world.rng.uniform(0.2, 3.0), self._join)


def accept_everything() -> None:
    """Removes the rule that false claims are not believed, for this process: to see that it matters."""

    def gullible(claims: shared.Claims, *_: object, **__: object) -> CheckedClaims:
        everything = np.ones(len(claims.member), dtype=np.bool_)
        return CheckedClaims(
            everything, np.ones(len(claims.member), dtype=np.int32), claims.generation, shared.Refused.none()
        )

    shared.check_claims = gullible
