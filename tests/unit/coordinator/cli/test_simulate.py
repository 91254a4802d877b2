"""What a simulated rebalance restores, in bytes, as far as brokers report sizes; what rebalances cost, by weights and a
price."""

import json
import re

import pytest

from bellwether_kafka.assignors.consumer import PartitionPlan, Policy, changed, decide, rebalances
from bellwether_kafka.assignors.shared import Change, ClusterView, Decision, Memory, Weights
from bellwether_kafka.coordinator.cli.cost import Scales, costs_of
from bellwether_kafka.coordinator.cli.simulate import SimulatedRebalance, draw_rebalances, task_bytes
from bellwether_kafka.coordinator.settings import CostSettings
from bellwether_kafka.coordinator.web import picture_of
from bellwether_kafka.protocol.primitives import TaskId, TopicPartition
from tests.kit.commands import ShownGroups, consumers
from tests.kit.consumers import LiveMember, live_group
from tests.kit.streams import Thread, group, led

CLUSTER = ClusterView.of({"t": [["az1"], ["az1"], ["az2"], ["az2"]]})  # 1 MB/s in each
WEIGHTS = Weights({TopicPartition("t", p): 1e6 for p in range(4)})
PRICE = CostSettings(price_per_gb=0.02, currency="EUR")


def simulated(change: Change) -> tuple[Decision[PartitionPlan], tuple[Decision[PartitionPlan], ...]]:
    """A group with a member in each rack, each with what is led there, and what the change causes."""
    members = [LiveMember("a", ("t",), "az1"), LiveMember("b", ("t",), "az2")]
    first = decide(live_group(members, 1, "range"), CLUSTER, Memory.empty(), Policy("rack-first"), 0)
    now = decide(live_group([m.after(first) for m in members], 2, "range"), CLUSTER, first.plan.memory, Policy(), 0)
    raw, cluster = changed(now.raw, now.cluster, change)
    return now, rebalances(raw, cluster, now.plan.memory, Policy("rack-first"), 0)


def test_a_task_is_as_large_as_its_changelogs_on_disk() -> None:
    decision = led(group(Thread("a", 1)))
    sizes = {("shop-totals-changelog", partition): 1_000 + partition for partition in range(3)}
    assert task_bytes(decision, sizes) == {
        **{TaskId(0, partition): 0 for partition in range(4)},
        **{TaskId(1, partition): 1_000 + partition for partition in range(3)},
    }, "nothing is known of 1_3, and 0 has no state"


def test_a_lost_rack_costs_what_is_read_from_it_then() -> None:
    now, made = simulated(Change(without_racks=("az2",)))
    (cost,) = costs_of(Scales(WEIGHTS, PRICE, near=False), now, made)
    assert (cost["present"]["bytes_per_s"], cost["present"]["cost_per_hour"]) == (0.0, 0.0)
    assert (cost["planned"]["bytes_per_s"], cost["planned"]["total_bytes_per_s"]) == (2e6, 4e6)
    assert (cost["planned"]["cost_per_hour"], cost["planned"]["currency"]) == (0.144, "EUR")
    assert cost["planned"]["by_racks"] == [
        {"from": "az2", "to": "az1", "bytes_per_s": 2e6, "cost_per_hour": 0.144, "currency": "EUR"}
    ]


def test_each_rebalance_begins_where_the_one_before_it_ends() -> None:
    now, made = simulated(Change(new_members=("az1", "az2"), topics={"t": 8}))
    costs = costs_of(Scales(WEIGHTS, None, near=None), now, [*made, *made])
    assert len(costs) >= 2
    assert [c["present"] for c in costs[1:]] == [c["planned"] for c in costs[:-1]]
    assert "cost_per_hour" not in costs[0]["planned"], "bytes without a price"
    assert (costs[-1]["planned"]["weighed"], costs[-1]["planned"]["owned"]) == (4, 8), "new partitions have no weight"


def test_cost_is_drawn_once_something_is_weighed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    now, made = simulated(Change(without_racks=("az2",)))
    rebalances = [SimulatedRebalance(decision, picture_of(decision, now), {}) for decision in made]
    draw_rebalances(rebalances, costs_of(Scales(WEIGHTS, PRICE, near=False), now, made), (3, 0))
    drawn = capsys.readouterr().out
    assert "now, reading from leaders: 0.0 B/s of 4.00 MB/s cross racks, 0.0000 EUR per hour" in drawn
    assert "afterwards, reading from leaders: 2.00 MB/s of 4.00 MB/s cross racks, 0.1440 EUR per hour" in drawn
    assert re.search(r"^1 .* 2.00 MB/s, 0.1440 EUR per hour$", drawn, re.MULTILINE), "of each round"
    assert re.search(r"^now +3 +0 +0.0 B/s, 0.0000 EUR per hour$", drawn, re.MULTILINE), "and before the first"
    draw_rebalances(rebalances, [], (3, 0))
    assert "across racks" not in capsys.readouterr().out


def test_what_crosses_racks_is_unknown_where_no_rack_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    rackless = ClusterView.of({"t": [[None]] * 4})
    decision = decide(live_group([LiveMember("a", ("t",))], 1, "range"), rackless, Memory.empty(), Policy(), 0)
    picture = picture_of(decision)
    assert picture.cross_rack is None
    draw_rebalances([SimulatedRebalance(decision, picture, {})], [], (None, 0))
    assert [line.split()[-2:] for line in capsys.readouterr().out.splitlines()[1:3]] == [["unknown", "0"]] * 2


def test_simulate_without_a_member_says_how_long_its_pause_may_be(groups: ShownGroups) -> None:
    groups.show(consumers(1, 1, 1, 0))
    assert "(48 s by default), with a guard for 0.2 s + " in groups.says("simulate", "g", "--without", "member:b")
    assert "by default" not in groups.says("simulate", "g", "--add", "1")
    (document,) = json.loads(groups.says("simulate", "g", "--without", "member:b", "-o", "json"))
    assert (document["unowned_s_max"], document["unowned_s_max_with_a_guard"]) == (48.0, 3.2)
    ended = groups.run("simulate", "g", "--without", "b")
    assert (ended.returncode, ended.stderr) == (2, "--without b cannot be used; write member:ID or rack:NAME.\n")
