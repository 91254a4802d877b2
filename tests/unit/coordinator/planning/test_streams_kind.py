"""The decision path of a Streams application: what is read, what is planned, what makes it stand aside."""

import operator
from dataclasses import replace
from functools import partial

import pytest
from structlog.testing import capture_logs

from bellwether_kafka.assignors.shared import RefusalError
from bellwether_kafka.assignors.streams import STOCK, Assignors, TaskPlan
from bellwether_kafka.coordinator.membership import DescribeAnswer, DescribedMember, RebuildMemory, shown
from bellwether_kafka.coordinator.planning import Planned, Solver, Source, record_bytes
from tests.kit.applications import RETURNED, A, App, B, Cluster, Log, TopologySource, after, lead, order
from tests.kit.consumers import cluster_of
from tests.kit.streams import NOW_MS, OWN, SHOP, SHOP_COUNTS, SIMPLE, Thread

RECORD_SHARE = 0.8
OFFSETS_FAILURES_MAX = 3

CHANGELOG = "shop-totals-changelog"


async def test_it_plans_with_fresh_metadata_and_the_ends_of_changelogs() -> None:
    app = App()
    planned = await lead(app, 1, A, B)
    assert planned.source is Source.PLAN
    assert planned.topics.subscribed == SHOP.source_topics
    assert planned.topics.kept == (CHANGELOG,)
    assert planned.topics.objection is not None
    assert "needs 9" in planned.topics.objection(cluster_of({**SHOP_COUNTS, "orders": 9}))
    assert app.cluster.asked == [tuple(sorted(SHOP_COUNTS))]
    assert app.log.asked == [(CHANGELOG,)]
    assert {member for member, _ in planned.decision.assignments} == {"a", "b", OWN}
    assert app.kind.memory.generation == 1
    app.planner.forget()
    assert app.kind.memory.generation == -1


async def test_without_a_topology_a_java_member_leads() -> None:
    with pytest.raises(RefusalError, match="its topology is not known"):
        await lead(App(topology_source=TopologySource(None)), 1, A)


async def test_missing_internal_topics_are_created_where_they_are_described_and_begin_empty() -> None:
    counts = {"orders": 4}
    internal = {t: n for t, n in SHOP_COUNTS.items() if t not in counts}
    app = App(cluster=Cluster(counts), topology_source=TopologySource(creates=internal), log=Log(committed=-1))
    planned = await lead(app, 1, A)
    assert planned.decision.plan.view.tasks.end_sum.tolist() == [0] * 8
    assert app.log.asked == [()], "topics made a moment ago have no ends to ask for"
    with pytest.raises(RefusalError, match=r"internal topics do not exist.*- {Name: .*StateChangelogTopics"):
        await lead(App(cluster=Cluster(counts), log=Log(committed=-1)), 1, A)


async def test_internal_topics_of_a_pattern_are_created_once_members_show_what_it_finds() -> None:
    """They were left to a Java leader for ever: its first generation was never Bellwether's."""
    first, second = SHOP.subtopologies
    by_pattern = replace(SHOP, subtopologies=(replace(first, sources=()), second), patterns=((0, "ord.*"),))
    internal = {t: n for t, n in SHOP_COUNTS.items() if t != "orders"}
    app = App(
        cluster=Cluster({"orders": 4}), topology_source=TopologySource(by_pattern, creates=internal), attested=True
    )
    await app.kind.prepare(1.0)
    assert app.cluster.counts == {"orders": 4}, "nobody knows yet how many partitions they need"
    planned = await lead(app, 1, replace(A, topics=("orders",)))
    assert planned.decision.plan.view.tasks.size == 8
    (asked,) = app.topology_source.completed
    assert asked.source_topics == SHOP.source_topics


async def test_it_makes_internal_topics_before_anybody_comes() -> None:
    fresh = Log(committed=-1)
    app = App(
        cluster=Cluster({"orders": 4}), log=fresh, topology_source=TopologySource(creates=SHOP_COUNTS), attested=True
    )
    await app.kind.prepare(1.0)
    assert app.cluster.counts == SHOP_COUNTS


async def test_a_reset_application_does_not_get_its_old_topics_again_before_members_come() -> None:
    """StreamsResetter removed Bellwether and nine topics; five seconds later Bellwether had made them all again, for a
    version that nobody would start any more."""
    seen = App(log=Log(committed=-1), topology_source=TopologySource(creates=SHOP_COUNTS), attested=True)
    await seen.kind.prepare(1.0)
    restarted = App(topology_source=TopologySource(creates=SHOP_COUNTS), attested=True)
    for app in (seen, restarted):
        app.cluster.counts = {"orders": 4}
        with capture_logs() as logs:
            await app.kind.prepare(1.0)
            await app.kind.prepare(1.0)
        assert app.cluster.counts == {"orders": 4}
        assert [entry["event"] for entry in logs] == ["application_reset"]
        await lead(app, 1, A)
        assert app.cluster.counts == SHOP_COUNTS, "its members are of this topology"


@pytest.mark.slow
@pytest.mark.parametrize("restarted", [False, True], ids=["we saw its topics", "we have restarted"])
async def test_a_reset_application_that_is_not_attested_is_left_to_java_first(restarted: bool) -> None:
    """Its next version may have other stores and subscribe to the same topics. With an empty memory Bellwether led it
    by the file of the old one, for which Bellwether made the old topics again."""
    log = Log() if restarted else Log(committed=-1)
    app = App(
        cluster=Cluster({"orders": 4}) if restarted else Cluster(),
        topology_source=TopologySource(creates=SHOP_COUNTS),
        log=log,
    )
    if not restarted:
        await lead(app, 1, A)
        app.planner.forget()
        app.cluster.counts = {"orders": 4}
    with capture_logs() as logs, pytest.raises(RefusalError, match=r"may be another version.* topology_attested"):
        await lead(app, 2, B)
    assert [entry["event"] for entry in logs].count("application_reset") == 1
    assert app.cluster.counts == {"orders": 4}, "nothing of the old version is made again"
    app.cluster.counts = SHOP_COUNTS  # by a Java leader
    await lead(app, 4, B)


async def test_an_application_that_has_run_gets_what_a_new_version_adds() -> None:
    counts = {t: n for t, n in SHOP_COUNTS.items() if "changelog" not in t}
    app = App(cluster=Cluster(counts), topology_source=TopologySource(creates=SHOP_COUNTS), attested=True)
    await app.kind.prepare(1.0)
    assert app.cluster.counts == SHOP_COUNTS


async def test_by_a_file_that_is_not_attested_nothing_is_made_before_a_member_has_come() -> None:
    """With a wrong source topic in it a repartition topic got too few partitions, and the application died of that."""
    app = App(cluster=Cluster({"orders": 4}), topology_source=TopologySource(creates=SHOP_COUNTS))
    await app.kind.prepare(1.0)
    assert app.cluster.counts == {"orders": 4}


@pytest.mark.slow
async def test_no_topics_are_made_for_members_of_another_topology() -> None:
    counts = {"orders": 4, "clicks": 4}
    app = App(
        cluster=Cluster(counts),
        topology_source=TopologySource(creates={t: n for t, n in SHOP_COUNTS.items() if t != "orders"}),
    )
    for topics in ((*A.topics, "clicks"), ("clicks",)):
        with pytest.raises(RefusalError):
            await lead(app, 1, replace(A, topics=topics))
        assert app.cluster.counts == counts


async def test_unknown_ends_are_borne_for_a_while() -> None:
    app = App()
    app.log.failure = "brokers are busy"
    for generation in range(OFFSETS_FAILURES_MAX):
        planned = await lead(app, generation, A)
        assert not planned.decision.plan.lags_known
    with pytest.raises(RefusalError, match=r"lags were not known 4 times in a row: brokers are busy"):
        await lead(app, 9, A)
    app.log.failure = None
    assert (await lead(app, 10, A)).decision.plan.lags_known


async def test_another_topology_than_the_members_have_is_not_led() -> None:
    with pytest.raises(RefusalError, match="topic clicks belongs to no subtopology"):
        await lead(App(), 1, replace(A, topics=(*A.topics, "clicks")))


async def test_a_topic_that_may_not_be_read_names_the_acl() -> None:
    app = App()
    app.cluster.unreadable = frozenset({"orders"})
    with pytest.raises(RefusalError, match="grant Bellwether's principal the ACL DESCRIBE on Topic 'orders'"):
        await lead(app, 1, A)


@pytest.mark.slow
async def test_metadata_of_a_moment_ago_serves_where_fresh_ones_take_too_long() -> None:
    app = App()
    app.cluster.fresh_takes_s = 10.0
    planned = await app.planner.plan(order(app, 1, A, seconds=1.5))
    assert planned.source is Source.PLAN
    assert len(app.cluster.asked) == 2


async def test_without_metadata_the_previous_plan_serves_only_who_did_not_speak_anew() -> None:
    app = App()
    first = await lead(app, 1, A, B)
    app.cluster.trouble = OSError("no broker")
    again = await lead(app, 2, A, B)
    assert again.source is Source.PREVIOUS
    assert again.decision.assignments == first.decision.assignments
    assert app.kind.memory.generation == 2
    with pytest.raises(RefusalError, match="no metadata: no broker"):
        await lead(app, 3, *after(first, A, B))


# ---- coming back -----------------------------------------------------------------------------------------------------


async def test_after_a_quiet_return_it_knows_who_holds_what() -> None:
    app = App()
    first = await lead(app, 1, A, B)
    blobs = dict(first.decision.assignments)
    described = DescribeAnswer(
        0,
        0,
        "Stable",
        members=tuple(
            DescribedMember(t.member_id, None, t.raw.metadata, blobs[t.member_id]) for t in after(first, A, B)
        ),
    )
    fresh = App()
    await fresh.planner.rebuild(RebuildMemory(1, "stream", ()), shown(described), OWN)
    assert fresh.kind.memory.plan.find("a") is not None
    assert len(fresh.kind.memory.threads) == 2
    command = replace(order(fresh, 1, *after(first, A, B)), dry=True)
    comparison = await fresh.planner.compare(command)
    assert comparison.worth_moving == ""
    assert comparison.topics.subscribed == SHOP.source_topics
    with pytest.raises(RefusalError, match="has restarted"):
        await lead(fresh, 2, *after(first, A), RETURNED)


async def returned(first: Planned[TaskPlan], *threads: Thread, assignors: Assignors = SIMPLE, **configs: int) -> str:
    """Why a leader that comes back to these threads, with the bytes of their first join, would rebalance."""
    blobs = dict(first.decision.assignments)
    members = tuple(DescribedMember(t.member_id, None, t.raw.metadata, blobs[t.member_id]) for t in threads)
    fresh = App(assignors=assignors, **configs)
    await fresh.planner.rebuild(
        RebuildMemory(1, "stream", ()), shown(DescribeAnswer(0, 0, "Stable", members=members)), OWN
    )
    return str((await fresh.planner.compare(replace(order(fresh, 1, *threads), dry=True))).worth_moving)


async def test_what_threads_reported_before_their_first_tasks_is_no_reason_to_rebalance() -> None:
    first = await lead(App(), 1, A, B)
    assert await returned(first, A, B) == ""


async def test_tasks_without_an_owner_are_worth_a_rebalance() -> None:
    first = await lead(App(), 1, A, B)
    assert await returned(first, A) == "4 tasks have no owner"


async def test_warmups_that_nobody_promoted_are_worth_a_rebalance() -> None:
    warm = App(max_warmup_replicas=2, num_standby_replicas=1)
    first = await lead(warm, 1, A, B)
    assert await returned(first, A, B, num_standby_replicas=1) == ""
    assert await returned(first, A, B, max_warmup_replicas=4) == "4 tasks have a warm-up that waits for a probe"


async def test_an_observer_takes_the_number_of_standbys_from_the_present_plan() -> None:
    """`bellwether debug ready` and `evacuate` in the container of an instance have no settings of its application."""
    first = await lead(App(num_standby_replicas=1), 1, A, B)
    with pytest.raises(RefusalError, match="keeps 1 standbys of most tasks"):
        await returned(first, A, B)
    assert await returned(first, A, B, standbys_unknown=True) == ""


async def test_a_standby_that_is_to_take_over_is_worth_a_rebalance_too() -> None:
    """Found by the simulation (seed 891): with one standby a new second process gets no copy too many. The instance
    that had promised it tasks was replaced, and the first process kept all of them for ever."""
    configs = {"num_standby_replicas": 1, "acceptable_recovery_lag": 0}

    async def grown() -> tuple[Planned[TaskPlan], list[Thread]]:
        app = App(assignors=STOCK, **configs)
        threads = [*after(await lead(app, 1, A), A), B]
        second = await lead(app, 2, *threads)
        threads = [thread.after(second.decision) for thread in threads]
        restoring = [threads[0], replace(threads[1], sums=dict.fromkeys(threads[1].sums, 1))]
        return await lead(app, 3, *restoring), restoring

    third, threads = await grown()
    assert third.decision.plan.target.probing
    assert not third.decision.followup
    reason = await returned(third, *threads, assignors=STOCK, **configs)
    assert reason.startswith("a process was to get tasks")
    first = await lead(App(assignors=STOCK, **configs), 1, A, B)
    assert await returned(first, A, B, assignors=STOCK, **configs) == "", "evenly spread"


async def test_what_the_guard_refuses_is_not_sent() -> None:
    app = App()
    app.planner._message_bytes_max = 300
    with pytest.raises(RefusalError, match="plan: the group's record would have"):
        await lead(app, 1, A, B)


async def test_a_rebalance_carries_the_time_of_its_decision() -> None:
    assert (await lead(App(), 1, A)).decision.decided_at_ms == NOW_MS


@pytest.mark.slow
async def test_the_plan_of_an_application_can_be_made_in_another_process() -> None:
    app, elsewhere = App(), App()
    solver = Solver(STOCK, always=True)
    elsewhere.planner._solver = solver
    try:
        here = await lead(app, 1, A, B)
        await solver.solve(partial(operator.is_, None), 30)  # until it is there
        there = await elsewhere.planner.plan(order(elsewhere, 1, A, B, seconds=20))
    finally:
        await solver.close()
    assert there.source is Source.PLAN, there.reasons
    assert there.decision.assignments == here.decision.assignments
    assert elsewhere.planner.delivered(1) is not None


async def test_a_record_that_is_too_large_goes_without_host_maps_before_the_group_is_given_up() -> None:
    threads = [Thread(name, n, endpoint=f"{name}.example:8080") for n, name in enumerate(("a", "b", "c"), 1)]
    app = App()
    full = await app.planner.plan(order(app, 1, *threads))
    size = record_bytes(full.decision.raw, full.decision.assignments)
    app.planner._message_bytes_max = int(size / RECORD_SHARE) - 2
    slim = await app.planner.plan(order(app, 2, *threads))
    assert slim.source is Source.PLAN
    (warning,) = [w for w in slim.decision.warnings if "interactive queries" in w]
    assert f"would have {size} bytes" in warning
    assert record_bytes(slim.decision.raw, slim.decision.assignments) < size
