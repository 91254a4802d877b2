"""What a refresh of offsets asks brokers for, and what it says where their answers do not fit together."""

import asyncio
from collections.abc import Collection, Mapping
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from confluent_kafka.admin import AdminClient

from bellwether_kafka.assignors.consumer import Policy
from bellwether_kafka.assignors.shared import ClusterView
from bellwether_kafka.coordinator.kafka.client import NO_END, Ends, MetadataRead, OffsetsError
from bellwether_kafka.coordinator.kafka.client.metadata import MetadataCache, cluster_view, distinct_placements
from bellwether_kafka.coordinator.kafka.wire import AnyCommitted
from bellwether_kafka.coordinator.membership import DescribeAnswer, DescribedMember, MembershipConfig
from bellwether_kafka.coordinator.observation import (
    SELF_ASSIGNED,
    VERDICTS,
    GroupLag,
    GroupObserver,
    LagRefreshes,
    LagVerdict,
    Observation,
    Sources,
    as_document,
    lag_refreshes,
)
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.observed import FakeReader, classic

ABSENT = "absent"

ASK_AGAIN_MS = 600_000


def refreshed(reader: FakeReader, counts: Mapping[str, int], compacted: Collection[str] = ()) -> GroupLag:
    refreshes = LagRefreshes("g", clock=lambda: 9.0, compacted=lambda *_: dict.fromkeys(compacted, True))
    return asyncio.run(refreshes.refresh(cast("Any", reader), cast("AdminClient", None), counts, {}, 1.0))


def test_a_commit_that_overtakes_its_end_is_read_again_and_no_lag_is_made_of_it() -> None:
    reader = FakeReader({"t": [12, 3], "u": [0]}, {"t": [10, 5], "u": [0]}, {"t": [13, 6], "u": [0]})
    lags = refreshed(reader, {"t": 2, "u": 1})
    assert lags.by_topic() == {"t": (1, 3), "u": (0,)}
    assert reader.asked == [("t", "u"), ("t",)]


def test_a_commit_that_stays_beyond_the_end_has_no_lag() -> None:
    assert refreshed(FakeReader({"t": [12]}, {"t": [10]}), {"t": 1}).by_topic() == {"t": (None,)}


def test_a_partition_without_a_leader_hides_no_lag_and_says_why_it_has_none() -> None:
    class Leaderless(FakeReader):
        async def known_ends(self, topics: Mapping[str, int], limit_s: float) -> Ends:
            del topics, limit_s
            return Ends({"t": np.array([10, NO_END])}, {TopicPartition("t", 1): "no broker leads the partition"})

    lags = refreshed(Leaderless({"t": [8, 8]}, {"t": [10, 10]}), {"t": 2})
    assert lags.by_topic() == {"t": (2, None)}
    assert [partition.note for partition in lags.partitions()] == [
        "",
        "the end is not known: no broker leads the partition",
    ]


class Watched:
    """Looks at one partition of topic t, ten seconds apart."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.reader = FakeReader({"t": [0]}, {"t": [0]})
        self.refreshes = LagRefreshes("g", clock=lambda: self.now, monotonic=lambda: self.now, compacted=lambda *_: {})

    def refresh(self, committed: int, end: int, start: int = 0) -> GroupLag:
        self.now += 10
        self.reader.committed_now, self.reader.ends_left = {"t": [committed]}, [{"t": [end]}]
        self.reader.starts_now = {"t": [start]}
        owners = {TopicPartition("t", 0): "a"}
        return asyncio.run(
            self.refreshes.refresh(cast("Any", self.reader), cast("AdminClient", None), {"t": 1}, owners, 1.0)
        )


class TestOpenTransaction:
    def last(self, committed: int, end: int, stable: int | None, refreshes: int = 34) -> tuple[GroupLag, Watched]:
        watched = Watched()
        watched.reader.stable_now = None if stable is None else {"t": [stable]}
        return [watched.refresh(committed, end) for _ in range(refreshes)][-1], watched

    @pytest.mark.slow
    def test_it_is_named_where_the_group_has_read_all_before_it(self) -> None:
        lag, _ = self.last(200, 1_663, 200)
        assert lag.summary().verdict is LagVerdict.STALLED
        assert lag.notes == (
            "t-0: an open transaction that begins at 200 holds back consumers that read committed records only",
        )

    @pytest.mark.slow
    @pytest.mark.parametrize("stable", [201, 1_663, None], ids=["more to read", "no transaction", "not known"])
    def test_a_consumer_that_hangs_before_it_has_no_excuse(self, stable: int | None) -> None:
        lag, _ = self.last(200, 1_663, stable)
        assert (lag.summary().verdict, lag.notes) == (LagVerdict.STALLED, ())

    @pytest.mark.slow
    def test_it_is_asked_for_each_minute_and_only_where_a_partition_is_stalled(self) -> None:
        assert self.last(200, 1_663, 200, refreshes=30)[1].reader.stable_asked == []
        _, watched = self.last(200, 1_663, 200, refreshes=31 + 11)
        assert watched.reader.stable_asked == [("t",)] * 2

    @pytest.mark.slow
    def test_its_end_is_seen(self) -> None:
        _, watched = self.last(200, 1_663, 200)
        assert watched.refresh(1_663, 1_663).notes == ()
        assert watched.refresh(1_664, 1_664).notes == ()


class TestRetention:
    @pytest.mark.slow
    def test_what_was_deleted_unread_is_no_lag_and_is_named(self) -> None:
        watched = Watched()
        lags = [watched.refresh(1_000, 50_000, 50_000) for _ in range(45)][-1]
        (only,) = lags.partitions()
        assert (only.lag, only.lag_ms, only.verdict, only.catch_up_ms) == (0, 0, LagVerdict.OK, 0)
        assert (only.committed, only.end) == (1_000, 50_000)
        assert only.note == "49000 offsets from 1000 were deleted before the group read them"
        assert lags.notes == ("49000 offsets of t-0 were deleted before the group read them",)

    @pytest.mark.slow
    def test_the_lag_is_behind_what_is_there(self) -> None:
        watched = Watched()
        lags = [watched.refresh(1_000, 50_000, 49_000) for _ in range(45)][-1]
        (only,) = lags.partitions()
        assert (only.lag, only.verdict) == (1_000, LagVerdict.STALLED)

    @pytest.mark.slow
    def test_records_that_come_after_the_deletion_have_a_window_of_their_own(self) -> None:
        watched = Watched()
        for _ in range(40):
            watched.refresh(1_000, 50_000, 50_000)
        assert watched.refresh(1_000, 50_005).summary().verdict is LagVerdict.OK
        late = [watched.refresh(1_000, 50_005) for _ in range(32)][-1].summary()
        assert (late.lag, late.verdict) == (5, LagVerdict.STALLED)

    @pytest.mark.slow
    def test_starts_are_asked_for_every_five_minutes_and_only_of_what_is_behind(self) -> None:
        watched = Watched()
        for _ in range(31):
            watched.refresh(5, 9)
        assert watched.reader.starts_asked == [("t",), ("t",)]
        for _ in range(60):
            watched.refresh(9, 9)
        assert len(watched.reader.starts_asked) == 2

    def test_a_topic_that_was_created_again_has_a_start_of_its_own(self) -> None:
        watched = Watched()
        assert watched.refresh(1_000, 50_000, 40_000).summary().lag == 10_000
        refreshed = watched.refresh(2, 7, 0)
        assert (refreshed.summary().lag, refreshed.notes) == (5, ())

    def test_starts_that_cannot_be_read_leave_the_lag_as_it_is(self) -> None:
        class Startless(FakeReader):
            async def known_starts(self, topics: Mapping[str, int], limit_s: float) -> Ends:
                del topics, limit_s
                raise OffsetsError("offsets: no answer in time")

        assert refreshed(Startless({"t": [2]}, {"t": [7]}), {"t": 1}).by_topic() == {"t": (5,)}

    def test_all_partitions_are_counted_and_the_worst_is_named(self) -> None:
        reader = FakeReader({"t": [5, 1], "u": [3]}, {"t": [9, 9], "u": [9]})
        reader.starts_now = {"t": [6, 9], "u": [2]}
        lags = refreshed(reader, {"t": 2, "u": 1})
        assert lags.notes == ("9 offsets of t-1 and 1 other partitions were deleted before the group read them",)
        assert lags.by_topic() == {"t": (3, 0), "u": (6,)}


def test_a_compacted_topic_is_named_where_there_is_a_lag() -> None:
    reader = FakeReader({"t": [3], "read": [4]}, {"t": [10], "read": [4]})
    note = "t is compacted: its lag counts offsets, and some of them have no record any more"
    assert refreshed(reader, {"t": 1, "read": 1}, {"t", "read"}).notes == (note,)


async def test_whether_topics_are_compacted_is_asked_now_and_then() -> None:
    now, asked = [1_000.0], list[list[str]]()

    def compacted(_admin: AdminClient, topics: Collection[str], _limit_s: float) -> Mapping[str, bool]:
        """The second time no broker says it."""
        asked.append(list(topics))
        return dict.fromkeys(topics, True) if len(asked) == 1 else {}

    refreshes = LagRefreshes("g", clock=lambda: now[0], compacted=compacted)
    reader: Any = FakeReader({"t": [3]}, {"t": [10]})
    for _ in range(3):
        refreshed = await refreshes.refresh(reader, cast("AdminClient", None), {"t": 1}, {}, 1.0)
        now[0] += ASK_AGAIN_MS / 1000 / 2
    assert asked == [["t"], ["t"]]
    assert len(refreshed.notes) == 1, "what was known holds"


def test_a_clock_that_is_set_begins_anew_and_makes_no_lag_in_time() -> None:
    wall, running = [1_000.0], [50.0]
    refreshes = LagRefreshes("g", clock=lambda: wall[0], monotonic=lambda: running[0], compacted=lambda *_: {})

    def after(passed_s: float, set_by_s: float, committed: int, end: int) -> GroupLag:
        wall[0], running[0] = wall[0] + passed_s + set_by_s, running[0] + passed_s
        reader: Any = FakeReader({"t": [committed]}, {"t": [end]})
        return asyncio.run(refreshes.refresh(reader, cast("AdminClient", None), {"t": 1}, {}, 1.0))

    after(10, 0, 0, 0)
    assert after(10, 0, 0, 10).lag_ms.tolist() == [10_000]
    set_forward = after(10, 3_600, 5, 20)
    assert (set_forward.lag_ms.tolist(), set_forward.lag_ms_min.tolist()) == ([-1], [0])
    assert np.isnan(set_forward.written_per_s).all()
    assert after(10, 0, 20, 30).lag_ms.tolist() == [10_000]
    assert after(10, -3_600, 25, 40).lag_ms.tolist() == [-1]


class FakeTransport:
    broker_version = (4, 3)

    def __init__(self, answer: DescribeAnswer, *committed: str) -> None:
        self.answer, self.any = answer, AnyCommitted(bool(committed), 0, committed)

    async def describe_group(self, _group: str) -> DescribeAnswer:
        return self.answer

    async def any_committed(self, _group: str) -> AnyCommitted:
        return self.any


def observer(transport: FakeTransport, reader: FakeReader, counts: Mapping[str, int]) -> GroupObserver:
    cache = MetadataCache()
    for topic, count in counts.items():
        cache.see_topic(topic, 0.0, *distinct_placements([(1, (1,))] * count))

    async def read(topics: Collection[str], _age_ms_max: int) -> MetadataRead:
        for topic in {*topics} - counts.keys():
            cache.see_trouble(topic, 0.0, ABSENT)
        return cache.read(topics, 0.0)

    async def snapshot(topics: Collection[str], age_ms_max: int) -> ClusterView:
        return cluster_view(await read(topics, age_ms_max))

    of_cluster = SimpleNamespace(admin=None, read=read, snapshot=snapshot)
    sources = cast(
        "Sources",
        SimpleNamespace(transport=transport, groups=transport, reader=of_cluster, offsets=reader, shared=None),
    )
    return GroupObserver(MembershipConfig("g"), sources, Policy())


def at(state: str, *members: DescribedMember) -> DescribeAnswer:
    return DescribeAnswer(0, 0, state, "consumer", "range" if members else "", members)


@pytest.fixture(autouse=True)
def nothing_is_compacted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag_refreshes, "compacted_topics", lambda *_: {})


async def one_refresh(transport: FakeTransport, reader: FakeReader, counts: Mapping[str, int]) -> Observation:
    return await observer(transport, reader, counts).observe()


async def test_a_group_without_members_lags_in_what_it_has_committed() -> None:
    seen = await one_refresh(FakeTransport(at("Empty"), "t"), FakeReader({"t": [3]}, {"t": [10]}), {"t": 1})
    assert (seen.lags, seen.lag) == ({"t": (7,)}, 7)
    assert seen.group_lag is not None
    assert seen.group_lag.summary().verdict is LagVerdict.UNKNOWN


def moving(*committed: int, state: str = "Empty", members: tuple[DescribedMember, ...] = ()) -> list[Observation]:
    """Refreshes of a group without members, each with this committed offset; `members` come before the last one."""
    transport, reader = FakeTransport(at(state), "t"), FakeReader({}, {"t": [1_000]})
    observing, seen = observer(transport, reader, {"t": 1}), []
    for number, offset in enumerate(committed):
        if members and number == len(committed) - 1:
            transport.answer = at("Stable", *members)
        reader.committed_now = {"t": [offset]}
        seen.append(asyncio.run(observing.observe()))
    return seen


def test_a_group_without_members_whose_offsets_move_has_consumers_that_assign_themselves() -> None:
    first, second = moving(3, 8)
    assert (first.self_assigned, first.verdict) == (False, "can be led")
    assert (second.self_assigned, second.verdict, second.lag) == (True, SELF_ASSIGNED, 992)
    document = as_document(second)
    assert document["verdict"] == SELF_ASSIGNED
    assert document["lag_report"]["summary"]["self_assigned"] is True


def test_a_reset_backwards_and_offsets_at_rest_are_no_consumers() -> None:
    assert not any(seen.self_assigned for seen in moving(8, 8, 3, 3))


def test_with_a_member_in_the_group_nobody_assigns_itself() -> None:
    assert [seen.self_assigned for seen in moving(3, 8, 9, members=(classic("a", "t-0"),))] == [False, True, False]


async def test_what_does_not_move_beside_commits_without_members_is_stalled_and_not_stopped() -> None:
    now = [1_000.0]
    refreshes = LagRefreshes("g", clock=lambda: now[0], monotonic=lambda: now[0], compacted=lambda *_: {})
    reader: Any = FakeReader({"t": [3, 3]}, {"t": [1_000, 1_000]})

    async def minutes(number: int, *, moves: bool) -> GroupLag:
        for _ in range(2 * number):
            now[0] += 30.0
            reader.committed_now["t"][1] += moves
            ends = {"t": 2}
            refreshed = await refreshes.refresh(reader, cast("AdminClient", None), ends, {}, 1.0, memberless=True)
        return refreshed

    lag = await minutes(6, moves=True)
    assert [VERDICTS[place] for place in lag.verdict] == [LagVerdict.STALLED, LagVerdict.OK]
    assert lag.summary().self_assigned
    over = await minutes(6, moves=False)
    assert [VERDICTS[place] for place in over.verdict] == [LagVerdict.STOPPED, LagVerdict.STOPPED]
    assert not over.summary().self_assigned


async def test_a_topic_that_is_gone_has_no_lag_and_a_sentence() -> None:
    transport = FakeTransport(at("Empty"), "gone", "t")
    seen = await one_refresh(transport, FakeReader({"t": [3]}, {"t": [10]}), {"t": 1})
    assert seen.lags == {"t": (7,)}
    assert seen.lag_notes == ("gone does not exist or may not be described: its lag is not known",)


async def test_offsets_that_cannot_be_read_are_a_sentence_and_not_zero() -> None:
    transport = FakeTransport(at("Empty"), "t")
    seen = await one_refresh(transport, FakeReader({}, {}, trouble="end offset of t-0: no answer in time"), {"t": 1})
    assert (seen.lag, seen.group_lag, seen.lag_notes) == (
        None,
        None,
        ("no lags: end offset of t-0: no answer in time",),
    )


async def test_while_a_group_rebalances_its_lags_are_those_of_the_topics_of_the_last_refresh() -> None:
    transport = FakeTransport(at("Stable", classic("a", "t-0")))
    new_observer = observer(transport, FakeReader({"t": [3]}, {"t": [10]}), {"t": 1})

    async def both() -> tuple[Observation, Observation]:
        before = await new_observer.observe()
        transport.answer = at("PreparingRebalance", DescribedMember("a", None))
        return before, await new_observer.observe()

    before, after = await both()
    assert before.lags == after.lags == {"t": (7,)}
    assert after.group_lag is not None
    assert [(p.member, p.lag) for p in after.group_lag.partitions()] == [(None, 7)]
