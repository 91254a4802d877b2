"""Claims that cannot be true are not believed, in any policy, and those that can be are
(docs/internals/assignors.md#claims-that-are-not-believed)."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer import POLICIES, PartitionPlan, Policy, decide, recall
from bellwether_kafka.assignors.shared import (
    AssignedMember,
    ClusterView,
    Decision,
    GroupView,
    IntArray,
    Memory,
    RawGroup,
)
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.consumers import (
    LiveMember,
    cluster_of,
    given,
    given_text,
    java,
    live_group,
    raw_group,
    settle,
    sticky_v1,
    subscription,
)

AHEAD = "claims partitions in a generation that the group has not reached"
IGNORED = "claims partitions, which members under this protocol revoke before they join"
UNGIVEN = "claims partitions that it was never given, or was to give up"

T12 = cluster_of({"t": 12})
EVERYTHING = [("t", p) for p in range(12)]
LAST = 9
KAFKA = Policy()


class KeepsWhatIsClaimed:
    """A plug-in as simple as they come: claims first, the rest to the member with the fewest."""

    name = "keeper"
    cooperative = True

    def assign(self, group: GroupView, cluster: ClusterView) -> IntArray:
        owner = np.full(cluster.partition_total, -1, dtype=np.int32)
        fair = -(-cluster.partition_total // group.size)
        for m in range(group.size):
            owner[group.claims[group.claims_first[m] : group.claims_first[m + 1]][:fair]] = m
        for flat in np.flatnonzero(owner == -1):
            owner[flat] = np.bincount(owner[owner >= 0], minlength=group.size).argmin()
        return owner


ALL_POLICIES = [*(Policy(name) for name in POLICIES), Policy("keeper", {"keeper": KeepsWhatIsClaimed()})]
LATER = {policy.name: [pytest.mark.slow] for policy in ALL_POLICIES if policy.name not in ("kafka", "keeper")}
each_policy = pytest.mark.parametrize(
    "policy", [pytest.param(policy, id=policy.name, marks=LATER.get(policy.name, [])) for policy in ALL_POLICIES]
)


def decided(
    raw: RawGroup, memory: Memory, policy: Policy = KAFKA, cluster: ClusterView = T12
) -> Decision[PartitionPlan]:
    decision = decide(raw, cluster, memory, policy, 0)
    assert isinstance(decision, Decision), decision
    return decision


def led(policy: Policy = KAFKA) -> tuple[list[LiveMember], Memory]:
    """Two cooperative members that have six partitions each, in generation 9 under Bellwether."""
    members, last, _ = settle([LiveMember("a", ("t",)), LiveMember("b", ("t",))], T12, Memory.empty(), generation=LAST)
    assert [len(m.owned) for m in members] == [6, 6]
    return members, last.plan.memory


def joined(members: Sequence[LiveMember], liar: bytes, generation: int) -> RawGroup:
    blobs = {m.member_id: m.metadata for m in members} | {"c": liar}
    return raw_group(blobs, generation=generation)


LIES: dict[str, Callable[[int], int]] = {
    "of the far future": lambda _: 2**31 - 1,
    "of the next generation": lambda generation: generation + 1,
    "of the present generation": lambda generation: generation,
    "of the generation before": lambda generation: generation - 1,
    "of an old generation": lambda _: 1,
    "of no generation": lambda _: -1,
}


@each_policy
@pytest.mark.parametrize("lie", LIES)
def test_a_newcomer_that_claims_everything_at_each_join_starves_nobody(policy: Policy, lie: str) -> None:
    members, memory = led()
    for generation in range(10, 16):
        liar = java(["t"], EVERYTHING, LIES[lie](generation))
        decision = decided(joined(members, liar, generation), memory, policy)
        members, memory = [m.after(decision) for m in members], decision.plan.memory
        assert min(len(m.owned) for m in members) >= 4
    assert [len(m.owned) for m in members] == [4, 4]
    assert len(given(decision)["c"]) == 4


@each_policy
def test_two_liars_that_agree_starve_nobody(policy: Policy) -> None:
    members, memory = led()
    for generation in range(10, 14):
        blobs = {m.member_id: m.metadata for m in members}
        blobs |= dict.fromkeys(("c", "d"), java(["t"], EVERYTHING, generation + 5))
        decision = decided(raw_group(blobs, generation=generation), memory, policy)
        members, memory = [m.after(decision) for m in members], decision.plan.memory
    assert [len(m.owned) for m in members] == [3, 3]


@each_policy
@pytest.mark.parametrize("lie", LIES)
def test_a_member_that_never_gives_back_starves_nobody_for_long(policy: Policy, lie: str) -> None:
    """b was given six, and claims them for ever when a third member has come."""
    members, memory = led()
    b, honest = members[1], [members[0], LiveMember("c", ("t",))]
    for generation in range(10, 15):
        blobs = {m.member_id: m.metadata for m in honest} | {"b": java(["t"], b.owned, LIES[lie](generation))}
        decision = decided(raw_group(blobs, generation=generation), memory, policy)
        honest, memory = [m.after(decision) for m in honest], decision.plan.memory
    assert [len(m.owned) for m in honest] == [4, 4]


@pytest.mark.parametrize("protocol", ["range", "roundrobin", "RoundRobinAssigner"])
@pytest.mark.parametrize("policy", [p for p in ALL_POLICIES if p.name != "keeper"], ids=lambda policy: policy.name)
@pytest.mark.parametrize("age", [8, *(pytest.param(age, marks=pytest.mark.slow) for age in (-1, 9, 2**31 - 1))])
def test_what_a_stock_leader_of_eager_members_ignores_is_ignored(protocol: str, policy: Policy, age: int) -> None:
    memory, plain = Memory.empty(), Memory.empty()
    for generation in range(9, 13):
        blobs = {"a": java(["t"], (), generation - 1), "b": java(["t"], (), generation - 1)}
        liar = blobs | {"c": java(["t"], EVERYTHING, age)}
        decision = decided(raw_group(liar, protocol=protocol, generation=generation), memory, policy)
        honest = raw_group(blobs | {"c": java(["t"], (), -1)}, protocol=protocol, generation=generation)
        expected = decided(honest, plain, policy)
        memory, plain = decision.plan.memory, expected.plan.memory
        assert given(decision) == given(expected)
        assert any(IGNORED in w and "c" in w for w in decision.warnings)
        assert not decision.plan.pending.any()


def test_a_custom_protocol_is_read_because_its_members_may_be_cooperative() -> None:
    policy = Policy("keeper", {"keeper": KeepsWhatIsClaimed()})
    raw = raw_group({"a": java(["t"], EVERYTHING, 4), "b": java(["t"])}, protocol="keeper", generation=5)
    assert decided(raw, Memory.empty(), policy).plan.pending.sum() == 6


@pytest.mark.parametrize("policy", POLICIES)
def test_a_history_of_the_future_is_no_history(policy: str) -> None:
    """Under "sticky" a list is history: it keeps nothing from others, and must not move what they have."""
    reported = {"a": EVERYTHING[:6], "b": EVERYTHING[6:]}
    blobs = {m: subscription(3, ["t"], sticky_v1(parts, 8)) for m, parts in reported.items()}
    liar = {"c": subscription(3, ["t"], sticky_v1(EVERYTHING, 2**31 - 1))}
    honest = {"c": subscription(3, ["t"])}
    lied, expected = (
        decided(raw_group(blobs | c, protocol="sticky", generation=9), Memory.empty(), Policy(policy))
        for c in (liar, honest)
    )
    assert given(lied) == given(expected)


def test_a_decision_names_the_member_and_what_is_not_accepted() -> None:
    members, memory = led()
    for age, reason in ((10, AHEAD), (9, UNGIVEN), (3, UNGIVEN)):
        decision = decided(joined(members, java(["t"], EVERYTHING, age), 10), memory)
        assert [w for w in decision.warnings if reason in w] == [f"{reason}: member c"]
    assert not decided(joined(members, java(["t"]), 10), memory).warnings


class TestClaimsThatCanBeTrue:
    """What looks alike and is believed: what they consume must not be given away before they have revoked it."""

    def test_a_leader_without_memory_believes_what_nobody_contests(self) -> None:
        members, _ = led()
        decision = decided(joined(members, java(["t"]), 10), Memory.empty())
        assert [len(given(decision)[m]) for m in "abc"] == [4, 4, 0]
        assert not decision.warnings

    def test_a_leader_without_memory_does_not_accept_the_future_against_others(self) -> None:
        members, _ = led()
        decision = decided(joined(members, java(["t"], EVERYTHING, 2**31 - 1), 10), Memory.empty())
        assert [len(given(decision)[m]) for m in "abc"] == [4, 4, 0]
        assert list(decision.warnings) == [f"{AHEAD}: member c"]

    def test_memory_that_was_read_from_the_broker_is_as_good(self) -> None:
        members, memory = led()
        before = decided(live_group(members, LAST), memory)
        described = [
            AssignedMember(m.member_id, None, m.metadata, dict(before.assignments)[m.member_id]) for m in members
        ]
        read = recall(LAST, "cooperative-sticky", T12, described)
        decision = decided(joined(members, java(["t"], EVERYTHING, LAST), 10), read)
        assert [len(given(decision)[m]) for m in "abc"] == [4, 4, 0]
        assert given_text(decided(live_group(members, 10), read)) == given_text(before)

    def test_what_others_have_planned_meanwhile_is_newer_than_memory(self) -> None:
        """A member led generations 10 and 11; a has what it was given in 11."""
        members, memory = led()
        a = replace(members[0], owned=members[1].owned, generation=11)
        b = replace(members[1], owned=members[0].owned, generation=11)
        decision = decided(live_group([a, b], 12), memory)
        assert {m: set(tps) for m, tps in given(decision).items()} == {"a": set(a.owned), "b": set(b.owned)}

    def test_members_that_name_no_generation_are_accepted_where_others_led(self) -> None:
        members, memory = led()
        a, b = (replace(m, owned=o.owned, generation=-1) for m, o in zip(members, reversed(members), strict=True))
        decision = decided(live_group([a, b, LiveMember("c", ("t",))], 12), memory)
        assert given(decision)["c"] == ()

    def test_memory_of_an_observed_group_knows_no_generation(self) -> None:
        members, memory = led()
        observed = replace(memory, generation=-1)
        swapped = [replace(m, owned=o.owned) for m, o in zip(members, reversed(members), strict=True)]
        decision = decided(live_group(swapped, 10), observed)
        assert {m: set(tps) for m, tps in given(decision).items()} == {m.member_id: set(m.owned) for m in swapped}

    def test_a_plan_that_a_member_never_got_does_not_make_it_a_liar(self) -> None:
        """a joined generation 10, the next rebalance began before its SyncGroup: it says 10 and what it had in 9."""
        members, memory = led()
        trio = [*members, LiveMember("c", ("t",))]
        tenth = decided(live_group(trio, 10), memory)
        lost = set(members[0].owned) - set(given(tenth)["a"])
        late = [replace(members[0], generation=10), *(m.after(tenth) for m in trio[1:])]
        eleventh = decided(live_group(late, 11), tenth.plan.memory)
        assert lost
        assert not lost & set(given(eleventh)["c"])
        assert not eleventh.warnings
        again = [late[0].after(eleventh), *(m.after(eleventh) for m in late[1:])]
        twelfth = decided(live_group(again, 12), eleventh.plan.memory)
        assert [len(given(twelfth)[m]) for m in "abc"] == [4, 4, 4]

    def test_a_member_whose_generation_is_nonsense_keeps_what_it_was_given(self) -> None:
        members, memory = led()
        odd = replace(members[0], generation=1_000_000)
        decision = decided(live_group([odd, members[1], LiveMember("c", ("t",))], 10), memory)
        assert len(given(decision)["a"]) == 4
        assert given(decision)["c"] == ()

    @pytest.mark.parametrize("remembers", [True, False])
    def test_a_group_that_counts_from_one_again_is_accepted(self, remembers: bool) -> None:
        members, memory = led()
        trio = [*members, LiveMember("c", ("t",))]
        decision = decided(live_group(trio, 2), memory if remembers else Memory.empty())
        assert [len(given(decision)[m]) for m in "abc"] == [4, 4, 0]
        liar = decided(joined(members, java(["t"], EVERYTHING, 2**31 - 1), 2), memory)
        assert [len(given(liar)[m]) for m in "abc"] == [4, 4, 0]

    def test_the_new_life_of_a_group_counts_more_than_memory_of_the_old_one(self) -> None:
        members, memory = led()
        swapped = [replace(m, owned=o.owned, generation=1) for m, o in zip(members, reversed(members), strict=True)]
        decision = decided(live_group(swapped, 2), memory)
        assert {m: set(tps) for m, tps in given(decision).items()} == {m.member_id: set(m.owned) for m in swapped}

    def test_a_static_member_that_returns_late_with_what_it_had_is_accepted_while_it_is_asked(self) -> None:
        members = [LiveMember(m, ("t",)) for m in "as"]
        instances = {"s": "static"}

        def group(these: Iterable[LiveMember], generation: int) -> RawGroup:
            return raw_group({m.member_id: m.metadata for m in these}, generation=generation, instances=instances)

        first = decided(group(members, 9), Memory.empty())
        a, s = (m.after(first) for m in members)
        tenth = decided(group([a, s], 10), first.plan.memory)
        a, s = a.after(tenth), s.after(tenth)
        # s is away and its bytes are those of generation 10; c comes, and what s has waits.
        eleventh = decided(
            group([a, replace(s, owned=members[1].after(first).owned, generation=9), LiveMember("c", ("t",))], 11),
            tenth.plan.memory,
        )
        kept = set(s.owned) - set(given(eleventh)["s"])
        assert kept
        assert not kept & set(given(eleventh)["c"])
        twelfth = decided(
            group([a.after(eleventh), s, LiveMember("c", ("t",)).after(eleventh)], 12), eleventh.plan.memory
        )
        assert not kept & set(given(twelfth)["c"])

    def test_a_removed_leader_that_came_back_under_a_new_id_has_its_history(self) -> None:
        memory = led()[1].renamed({"a": "a2"})
        members = led()[0]
        again = decided(live_group([replace(members[0], member_id="a2"), members[1]], 10), memory)
        assert set(given(again)["a2"]) == set(members[0].owned)

    def test_a_topic_that_grew_is_given_at_once_whatever_is_claimed(self) -> None:
        members, memory = led()
        grown = cluster_of({"t": 15})
        liar = [replace(members[0], owned=tuple(TopicPartition("t", p) for p in range(15))), members[1]]
        decision = decided(live_group(liar, 10), memory, cluster=grown)
        assert sorted(len(mine) for mine in given(decision).values()) == [7, 8]

    def test_what_the_last_plan_did_not_know_is_accepted(self) -> None:
        """A topic was deleted and made again; a had not come by that plan yet and still consumes a partition of it
        (seed 17 of the simulated restarts)."""
        members, memory = led()
        both = cluster_of({"t": 12, "u": 1})
        a = replace(members[0], topics=("t", "u"), owned=(*members[0].owned, TopicPartition("u", 0)))
        b, c = replace(members[1], topics=("t", "u")), LiveMember("c", ("t", "u"))
        decision = decided(live_group([a, b, c], 10), memory, cluster=both)
        assert not [m for m in "bc" if TopicPartition("u", 0) in given(decision)[m]]
