"""A group that one guard looks at: processes come, crash, restart under the same names and share what they should not.
Each member that the guard would remove belongs to its own process, if no other process has what was named; where others
visibly have it, nobody is removed."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from bellwether_kafka.coordinator.guard.members import Identity, SeenMembers, belonging, updated
from bellwether_kafka.coordinator.membership import DescribeAnswer, DescribedMember
from tests.kit.membership import GROUP, P1, P2, subscribed, thread_id

SETTLED_S = 10.0

HOSTS = ("/10.0.0.1", "/10.0.0.2")
OWN, THEIRS = "own", "theirs"
STATES = ("Stable", "CompletingRebalance", "PreparingRebalance")


@dataclass
class Group:
    """Members in the order in which they came; one that has left stays listed until it is dropped."""

    members: dict[str, DescribedMember] = field(default_factory=dict)
    owner: dict[str, str] = field(default_factory=dict)
    joined: int = 0

    def join(self, who: str, client_id: str, host: str, process: str | None) -> None:
        self.joined += 1
        member_id = f"m{self.joined}"
        metadata = subscribed(process) if process else b""
        self.members[member_id] = DescribedMember(member_id, None, metadata, client_id=client_id, client_host=host)
        self.owner[member_id] = who

    def shown(self, state: str) -> DescribeAnswer:
        hidden = state != "Stable"
        listed = [
            DescribedMember(m.member_id, None, b"" if hidden else m.metadata, b"", m.client_id, m.client_host)
            for m in self.members.values()
        ]
        return DescribeAnswer(0, 0, state, "consumer", "range", tuple(listed))


STEP = st.one_of(
    st.tuples(st.just("join ours"), st.integers(1, 3), st.just(0)),
    st.tuples(st.just("join theirs"), st.integers(1, 3), st.integers(0, 1)),
    st.tuples(st.just("drop"), st.integers(0, 20), st.just(0)),
    st.tuples(st.just("refresh"), st.integers(0, 2), st.just(0)),
)


def played(
    steps: list[tuple[str, int, int]], own: str, theirs: str, process: tuple[str | None, str | None]
) -> tuple[Group, SeenMembers]:
    """The group, and what the guard has seen. Its own process has joined as soon as one of its members is there."""
    group, seen = Group(), SeenMembers()
    for what, number, host in steps:
        if what == "join ours":
            group.join(OWN, own.format(number), HOSTS[0], process[0])
        elif what == "join theirs":
            group.join(THEIRS, theirs.format(number), HOSTS[host], process[1])
        elif what == "drop" and group.members:
            del group.members[list(group.members)[number % len(group.members)]]
        elif what == "refresh":
            seen = updated(seen, group.shown(STATES[number]), joins=OWN in group.owner.values())
    return group, seen


@given(st.lists(STEP, max_size=30))
def test_with_a_process_id_of_its_own_only_its_members_are_removed(steps: list[tuple[str, int, int]]) -> None:
    own, theirs = thread_id(P1).replace("-1-", "-{}-"), thread_id(P2).replace("-1-", "-{}-")
    group, seen = played(steps, own, theirs, (P1, P2))
    own_members = belonging(Identity(GROUP, P1), seen, 60.0)
    assert all(group.owner[member_id] == OWN for member_id in own_members.member_ids)
    if not own_members.objections:
        assert set(own_members.member_ids) == {m for m in seen.members if group.owner[m] == OWN}


@given(st.lists(STEP, max_size=30))
def test_with_a_client_id_of_its_own_only_its_members_are_removed(steps: list[tuple[str, int, int]]) -> None:
    group, seen = played(steps, "app-{}", "other-{}", (None, None))
    own_members = belonging(Identity(GROUP, client_ids=("app-1", "app-2", "app-3")), seen, 60.0)
    assert all(group.owner[member_id] == OWN for member_id in own_members.member_ids)


@given(st.lists(STEP, max_size=30), st.floats(0, 60))
def test_a_client_id_that_others_visibly_have_frees_nobody(steps: list[tuple[str, int, int]], lived_s: float) -> None:
    """Others are visible beside the guard's own: on another host, or in one generation. One at a time may be its
    own."""
    _, seen = played(steps, "app-1", "app-1", (None, None))
    own_members = belonging(Identity(GROUP, client_ids=("app-1",)), seen, lived_s)
    hosts = {m.client_host for m in seen.members.values()}
    if len(hosts) > 1 or "app-1" in seen.shared:
        assert not own_members.member_ids
    if lived_s < SETTLED_S:
        assert not any(seen.members[m].at_first for m in own_members.member_ids)


@given(st.lists(STEP, max_size=30))
def test_a_process_id_that_others_visibly_have_frees_none_of_them(steps: list[tuple[str, int, int]]) -> None:
    """Members of a dead predecessor, or of a process with a copy of the state directory. Who was there before is never
    removed, and nobody whose client id two members had in one generation."""
    threads = thread_id(P1).replace("-1-", "-{}-")
    group, seen = played(steps, threads, threads, (P1, P1))
    own_members = belonging(Identity(GROUP, P1), seen, 60.0)
    assert not any(seen.members[m].before for m in own_members.member_ids)
    theirs = [seen.members[m] for m in own_members.member_ids if group.owner[m] != OWN]
    beside = {seen.members[m].client_id for m in own_members.member_ids if group.owner[m] == OWN}
    assert not any(m.client_id in seen.shared and m.client_id in beside for m in theirs)
