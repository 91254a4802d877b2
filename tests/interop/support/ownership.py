"""What members of a group have consumed and owned: twice, or with gaps."""

from collections import defaultdict
from collections.abc import Iterable, Mapping

from tests.interop.support.members import Member, Range, TopicPartition


def double_ownership(members: Iterable[Member], tolerance_ms: int = 20) -> list[str]:
    """Partitions that a member got before their last owner said that it had given them up, by the clock they share.

    Only orderly hand-overs are judged: an owner that was killed, stopped or lost its membership could not say when.
    """
    holding: dict[TopicPartition, tuple[int, str]] = {}
    given: dict[TopicPartition, tuple[int, str]] = {}
    violations = []
    order = {"revoked": 0, "assigned": 1}
    everything = [event for member in members for event in list(member.events)]
    for event in sorted(everything, key=lambda e: (e.t_ms, order.get(e.kind, 2))):
        if event.kind in ("killed", "stopped", "lost"):
            holding = {tp: holder for tp, holder in holding.items() if holder[1] != event.member}
        for tp in event.partitions:
            if event.kind == "assigned":
                given[tp] = (event.t_ms, event.member)
                holding.setdefault(tp, given[tp])
            elif event.kind == "revoked":
                since, owner = given.get(tp, (event.t_ms, event.member))
                if owner != event.member and tp in holding and event.t_ms - since > tolerance_ms:
                    violations.append(
                        f"{tp[0]}-{tp[1]}: {owner} had it {event.t_ms - since} ms before {event.member} let go"
                    )
                if tp in given and owner != event.member:
                    holding[tp] = given[tp]
                else:
                    holding.pop(tp, None)
    return violations


def consumed_gaps(members: Iterable[Member], ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, list[Range]]:
    """Per partition, the offsets in [0, end) that none of these members reported; empty when nothing was skipped."""
    reported: dict[TopicPartition, list[Range]] = defaultdict(list)
    for member in members:
        for tp, spans in list(member.consumed.items()):
            reported[tp] += spans
    gaps: dict[TopicPartition, list[Range]] = {}
    for tp, end in ends.items():
        following = 0
        missing = []
        for first, last in sorted(reported[tp]):
            if first > following:
                missing.append((following, min(first, end) - 1))
            following = max(following, last + 1)
        if following < end:
            missing.append((following, end - 1))
        if missing:
            gaps[tp] = missing
    return gaps
