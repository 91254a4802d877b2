"""Whatever newcomers claim, at every join and in any policy, honest members have a fair share after three rebalances,
and no partition is given to one member while another honest one consumes it."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from bellwether_kafka.assignors.consumer import POLICIES, Policy, decide
from bellwether_kafka.assignors.shared import Decision, Memory
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.consumers import LiveMember, cluster_of, java, raw_group, settle

FIRST, REBALANCES, SETTLED = 9, 6, 3
PARTITIONS = 12

offsets = st.one_of(st.integers(-10, 5), st.just(1 << 29))  # of a claim's generation from the present one
lists = st.lists(st.integers(0, PARTITIONS - 1), unique=True)


@given(
    honest=st.integers(1, 3),
    late=st.lists(st.booleans(), min_size=REBALANCES, max_size=REBALANCES),
    message=st.lists(
        st.lists(st.tuples(offsets, lists), min_size=REBALANCES, max_size=REBALANCES), min_size=1, max_size=2
    ),
    policy=st.sampled_from(POLICIES),
)
def test_honest_members_have_their_share(
    honest: int, late: list[bool], message: list[list[tuple[int, list[int]]]], policy: str
) -> None:
    """`late`: the first member does not get the plan before the next rebalance, never twice in a row."""
    cluster = cluster_of({"t": PARTITIONS})
    members, last, _ = settle(
        [LiveMember(f"m{i}", ("t",)) for i in range(honest)], cluster, Memory.empty(), generation=FIRST
    )
    memory, missed = last.plan.memory, False
    start = last.raw.generation + 1
    for step in range(REBALANCES):
        generation = start + step
        blobs = {m.member_id: m.metadata for m in members}
        for n, claims in enumerate(message):
            age, parts = claims[step]
            blobs[f"x{n}"] = java(["t"], [("t", p) for p in parts], max(-1, generation + age))
        decision = decide(raw_group(blobs, generation=generation), cluster, memory, Policy(policy), 0)
        assert isinstance(decision, Decision)
        memory = decision.plan.memory
        missed = late[step] and not missed
        members = [
            replace(m, generation=generation) if missed and i == 0 else m.after(decision) for i, m in enumerate(members)
        ]
        consumed: list[TopicPartition] = [p for m in members for p in m.owned]
        assert len(consumed) == len(set(consumed))
        if step >= SETTLED and not any(late[step - SETTLED : step + 1]):
            assert min(len(m.owned) for m in members) >= PARTITIONS // (honest + len(message))
