"""Whether the processes in a rebalance run the application whose topology Bellwether knows, and when a Java member
leads instead."""

from dataclasses import replace

import pytest

from bellwether_kafka.assignors.shared import RefusalError
from bellwether_kafka.assignors.streams import TaskPlan
from bellwether_kafka.coordinator.membership import DescribeAnswer, DescribedMember
from bellwether_kafka.coordinator.planning import Planned
from bellwether_kafka.coordinator.planning.streams_inputs import tag_value
from tests.kit.applications import RETURNED, A, App, B, C, TopologySource, after, lead, order
from tests.kit.streams import SHOP, Thread

TAG = "bellwether.topology"

# ---- trust -----------------------------------------------------------------------------------------------------------


async def grown(app: App, *newcomers: Thread) -> Planned[TaskPlan]:
    """Leads a and b, then a, b and the newcomers."""
    first = await lead(app, 1, A, B)
    return await lead(app, 2, *after(first, A, B), *newcomers)


async def test_a_new_process_is_led_when_nobody_has_gone() -> None:
    planned = await grown(App(), C)
    assert planned.decision.plan.view.size == 3
    assert planned.decision.followup


@pytest.mark.parametrize(
    "app",
    [App(attested=True), App()],
    ids=["the operator says so", "the process carries the digest"],
)
async def test_a_restarted_process_is_led_where_the_topology_is_attested(app: App) -> None:
    tags = () if app.kind.config.topology_attested else ((TAG, tag_value(SHOP.digest)),)

    async def scenario() -> Planned[TaskPlan]:
        first = await lead(app, 1, A, B)
        return await lead(app, 2, *after(first, A), replace(RETURNED, tags=tags))

    assert (await scenario()).decision.plan.view.size == 2


async def test_a_restarted_process_that_is_not_attested_is_left_to_java() -> None:
    app = App()
    first = await lead(app, 1, A, B)
    with pytest.raises(RefusalError, match=r"has restarted and may run another version .* client\.tag\.bellwether"):
        await lead(app, 2, *after(first, A), RETURNED)


async def test_a_static_member_that_restarted_is_found_by_its_member_id() -> None:
    static, returned = replace(B, instance_id="i"), replace(RETURNED, instance_id="i")
    app = App()
    first = await lead(app, 1, A, static)
    with pytest.raises(RefusalError, match="has restarted"):
        await lead(app, 2, *after(first, A), returned)


@pytest.mark.parametrize("order_of_events", ["old one goes first", "new one comes first"])
async def test_a_new_process_that_takes_the_place_of_another_counts_as_restarted(order_of_events: str) -> None:
    app = App()
    first = await lead(app, 1, A, B)
    between = [A, C] if order_of_events == "new one comes first" else [A]
    joined = after(first, A) + ([*after(first, B), C] if len(between) == 2 else [])
    second = await lead(app, 2, *joined)
    with pytest.raises(RefusalError, match="has restarted"):
        await lead(app, 3, *after(second, A), *(after(second, C) if len(between) == 2 else [C]))


def of_orders(planned: Planned[TaskPlan], *threads: Thread) -> list[Thread]:
    """The threads come again and have partitions of subtopology 0 alone."""
    came = after(planned, *threads)
    return [replace(t, owned=tuple(tp for tp in t.owned if tp.topic == "orders"), sums={}) for t in came]


@pytest.mark.parametrize("process", [2, None], ids=["with its id on disk", "with a new id each time"])
async def test_a_process_that_dies_of_every_plan_is_left_to_java(process: int | None) -> None:
    """A wrong topology that the operator attested killed the application after every start, for ever."""

    beside = [A] if process is not None else []

    def life(number: int) -> Thread:
        return Thread(f"b-{number}", process or 100 + number)

    async def lives(app: App, *, apart_s: float) -> None:
        planned = await lead(app, 1, *beside, life(0))
        for number in range(1, 5):
            app.at_s += apart_s
            planned = await lead(app, number + 1, *of_orders(planned, *beside), life(number))

    with pytest.raises(RefusalError, match=r"has restarted 3 times within 5 minutes.*Topology\.describe"):
        await lives(App(attested=True), apart_s=20.0)
    await lives(App(attested=True), apart_s=200.0)


@pytest.mark.parametrize("counts", [True, False], ids=["they count on", "they begin to count again"])
async def test_threads_that_lost_their_tasks_and_joined_again_are_no_process_that_restarted(counts: bool) -> None:
    """A rebalance that waited for a ghost aborted every transaction; every thread came back under another member id,
    and after the third time the application was given up when it needed its leader most (D25)."""

    def life(number: int) -> Thread:
        return Thread(f"b-{number}", 2, unique=2 + 2 * number if counts else 2)

    async def lives(app: App) -> None:
        planned = await lead(app, 1, A, life(0))
        for number in range(1, 6):
            app.at_s += 20.0
            planned = await lead(app, number + 1, *of_orders(planned, A), life(number))

    if counts:
        await lives(App(attested=True))
        return
    with pytest.raises(RefusalError, match="has restarted 3 times"):
        await lives(App(attested=True))


async def test_a_process_that_ends_again_and_again_beside_others_that_work_is_led() -> None:
    """A record that one instance could not process took the lead from Bellwether, although the others worked by its
    plan (a live soak: four restarts within a minute)."""
    app = App(attested=True)
    planned = await lead(app, 1, A, Thread("b-0", 2))
    for number in range(1, 8):
        app.at_s += 15.0
        planned = await lead(app, number + 1, *after(planned, A), Thread(f"b-{number}", 2))


@pytest.mark.parametrize("process", [1, None], ids=["with its id on disk", "with a new id each time"])
@pytest.mark.parametrize("works", [True, False])
async def test_a_lone_process_that_has_written_state_in_each_life_is_led(works: bool, process: int | None) -> None:
    """Its operator restarted it three times in five minutes, and it was given to Java each time (a live soak)."""

    async def scenario() -> None:
        app = App(attested=True)
        for number in range(1, 8):
            app.at_s += 20.0
            app.log.end += 10 * works
            await lead(app, number, Thread(f"a-{number}", process or 100 + number))

    if works:
        await scenario()
        return
    with pytest.raises(RefusalError, match="has restarted 3 times"):
        await scenario()


@pytest.mark.slow
@pytest.mark.parametrize("process", [1, None], ids=["with its id on disk", "with a new id each time"])
async def test_a_lone_process_that_survives_its_tasks_is_led_without_state_or_input(process: int | None) -> None:
    """Three restarts within five minutes were taken for deaths, although nothing showed any harm."""
    app, generation = App(attested=True), 0
    for number in range(1, 8):
        app.at_s += 20.0
        life, generation = Thread(f"a-{number}", process or 100 + number), generation + 1
        planned = await lead(app, generation, life)
        probe_ms = planned.decision.probing_at_ms
        assert (probe_ms is not None) == (number in (3, 5, 7)), "asked before the limit is exceeded, and only then"
        if probe_ms is not None:
            assert 3.0 <= probe_ms / 1000 - app.at_s <= 10.0
            app.at_s, generation = probe_ms / 1000, generation + 1
            await lead(app, generation, *after(planned, life))


async def test_state_that_grows_beside_others_proves_no_process() -> None:
    async def lives() -> None:
        app = App(attested=True)
        planned = await lead(app, 1, A, Thread("b-0", 2))
        for number in range(1, 8):
            app.at_s += 20.0
            app.log.end += 10
            planned = await lead(app, number + 1, *of_orders(planned, A), Thread(f"b-{number}", 2))

    with pytest.raises(RefusalError, match="has restarted 3 times"):
        await lives()


async def test_strangers_that_come_and_go_are_no_process_that_restarts() -> None:
    app = App(attested=True)
    planned = await lead(app, 1, A)
    for number in range(1, 6):
        app.at_s += 1.0
        strangers = [Thread(f"x-{number}", 100 + number)] if number % 2 else []
        planned = await lead(app, number + 1, *after(planned, A), *strangers)


async def test_a_process_that_attests_another_topology_is_never_led() -> None:
    with pytest.raises(RefusalError, match="attests the topology 0123456789abcdef"):
        await lead(App(attested=True), 1, replace(A, tags=((TAG, "0123456789abcdef"),)))


# ---- while others lead -----------------------------------------------------------------------------------------------


def shown(first: Planned[TaskPlan], *threads: Thread, state: str = "Stable") -> DescribeAnswer:
    blobs = dict(first.decision.assignments)
    return DescribeAnswer(
        0,
        0,
        state,
        members=tuple(DescribedMember(t.member_id, t.instance_id, t.raw.metadata, blobs[t.member_id]) for t in threads),
    )


async def test_what_a_group_shows_under_another_leader_is_remembered_until_a_process_restarts() -> None:
    first = await lead(App(), 1, A, B)
    app = App()
    await app.planner.observed(shown(first, A, B, state="PreparingRebalance"), None)
    assert app.topology_source.observed == []
    await app.planner.observed(shown(first, A, B), None)
    assert len(app.kind.memory.threads) == 2
    assert not app.kind.memory.led
    await app.planner.observed(shown(first, A, B), None)
    assert len(app.topology_source.observed) == 2, "learning is tried again"
    with pytest.raises(RefusalError, match="has restarted"):
        await lead(app, 5, A, RETURNED)
    await lead(app, 6, *after(first, A, B))


async def test_bellwethers_own_instance_is_not_a_thread_of_the_application() -> None:
    first = await lead(App(), 1, A, replace(B, instance_id="bellwether"))
    app = App()
    await app.planner.observed(shown(first, A, replace(B, instance_id="bellwether")), "bellwether")
    assert list(app.kind.memory.threads) == ["a"]


async def test_a_topology_that_was_learned_counts_for_those_who_showed_it() -> None:
    learned = replace(SHOP, source="learned")
    app = App(topology_source=TopologySource(learned))
    app.topology_source.learned_from_members = frozenset({"a"})
    with pytest.raises(RefusalError, match="has restarted"):
        await lead(app, 1, A, B)
    app.topology_source.learned_from_members = frozenset({"a", "b"})
    await lead(app, 2, A, B)
    app.topology_source.mismatch = "subtopology 1 of the application has another changelog"
    with pytest.raises(RefusalError, match="another changelog"):
        await lead(app, 3, A, B)


async def test_members_that_a_topology_was_not_learned_from_are_no_acquaintances() -> None:
    first = await lead(App(), 1, A, B)
    app = App(topology_source=TopologySource(replace(SHOP, source="learned")))
    app.topology_source.learned_from_members = frozenset({"a", "before"})
    await app.planner.observed(shown(first, A, B), None)
    assert not app.kind.memory.threads
    with pytest.raises(RefusalError, match="has restarted"):
        await app.planner.compare(order(app, -1, A, B))


@pytest.mark.parametrize("source", ["file", "learned"])
async def test_a_leader_that_bellwether_removed_to_lead_has_not_restarted(source: str) -> None:
    """It comes back under another id, was taken for a restart, and the group was given back and taken over again."""
    first = await lead(App(), 1, A, B)
    app = App(topology_source=TopologySource(replace(SHOP, source=source)))
    app.topology_source.learned_from_members = frozenset({"a", "b"})
    await app.planner.observed(shown(first, A, B), None)
    command = order(app, 2, *after(first, A), RETURNED)
    with pytest.raises(RefusalError, match="has restarted"):
        await app.planner.plan(command)
    planned = await app.planner.plan(replace(command, removed=("b",)))
    assert planned.decision.plan.view.size == 2
    assert (reported := app.planner.delivered(2)) is not None
    assert reported.decision.plan is planned.decision.plan
    again = await lead(app, 3, *after(planned, A, RETURNED))
    assert again.decision.plan.view.size == 2
