"""Measures for how long members that were proven dead remained in a group. Pure. `ghosts/proof.py` has the proof."""

from dataclasses import replace

from bellwether_kafka.coordinator.assessment.model import SeenGhost
from bellwether_kafka.coordinator.ghosts import GhostFinder, process_of
from bellwether_kafka.coordinator.membership import DescribeAnswer


class GhostRefreshes:
    """The ghosts of one group. `observe` must get the answers of DescribeGroups in order. `blind` is true if the death
    of some members could not be proven, so that there may be ghosts although none is found."""

    def __init__(self, group_id: str, *, client_ids_unique: bool = False) -> None:
        self._group_id, self._attested = group_id, client_ids_unique
        self._finder = GhostFinder(group_id, client_ids_unique=client_ids_unique)
        self._ghosts: dict[str, SeenGhost] = {}
        self.blind = False

    def observe(self, answer: DescribeAnswer, at_ms: int) -> None:
        dynamic = (member for member in answer.members if member.instance_id is None)
        self.blind |= not self._attested and any(process_of(m.client_id, self._group_id) is None for m in dynamic)
        for ghost in self._finder.refresh(answer, at_ms / 1000):
            fresh = SeenGhost(ghost.member_id, ghost.client_id, ghost.reason, at_ms, at_ms)
            self._ghosts[ghost.member_id] = replace(self._ghosts.get(ghost.member_id, fresh), to_ms=at_ms)

    @property
    def ghosts(self) -> tuple[SeenGhost, ...]:
        return tuple(self._ghosts.values())
