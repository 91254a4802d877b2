"""The picture before and after: shares of the load, what crosses racks, what is hot, and a document of its own."""

import io

import numpy as np
import pytest
from rich.console import Console

from bellwether_kafka.assignors.consumer import PartitionPlan, Policy, decide
from bellwether_kafka.assignors.shared import ClusterView, Decision, Memory, Weights
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.consumers import LiveMember, live_group
from tests.lab.demo.repair_picture import Repair, readings, repair_picture, svg

RACKS = ("az1", "az2", "az3")
HOT = Weights({TopicPartition("t", p): 70.0 if p == 0 else 10.0 for p in range(6)})


def decided(*racks: str, policy: Policy | None = None) -> Decision[PartitionPlan]:
    """Returns the plan for one member in each of these racks, with two partitions led in each of three racks."""
    members = [LiveMember(f"m-{rack}", ("t",), rack=rack) for rack in racks]
    cluster = ClusterView.of({"t": [[RACKS[p % 3]] for p in range(6)]})
    return decide(live_group(members, 1, "range"), cluster, Memory.empty(), policy or Policy("rack-first"), now_ms=0)


def rack_repair() -> Repair:
    return Repair(title="a rack", before=decided("az1", "az3"), after=decided(*RACKS))


def load_repair() -> Repair:
    by_load = Policy("load-aware")
    return Repair(
        title="a hot partition",
        before=decided(*RACKS, policy=by_load),
        after=decided(*RACKS, policy=by_load.with_weights(HOT)),
        weights=HOT,
    )


def drawn(*repairs: Repair) -> str:
    out = io.StringIO()
    Console(file=out, width=100).print(repair_picture(repairs))
    return out.getvalue()


def test_partitions_across_racks_are_counted_before_and_after() -> None:
    repair = rack_repair()
    assert sum(r.across for r in readings(repair, repair.before).values()) == 2
    text = drawn(repair)
    assert "read across racks 2 -> 0 of 6 partitions" in text
    assert "times the mean" not in text, "without weights there is no load"


def test_a_member_that_was_not_there_before_has_an_empty_cell() -> None:
    (row,) = [line for line in drawn(rack_repair()).splitlines() if "m-az2" in line]
    assert row.split("az2")[2].split()[0] == "-"


def test_shares_of_the_load_add_up_and_the_hot_partition_is_named() -> None:
    repair = load_repair()
    members = readings(repair, repair.after).values()
    assert np.mean([member.times_mean for member in members]) == pytest.approx(1.0)
    assert sorted(member.hot for member in members) == ["", "", "t-0"]
    fullest = [max(r.times_mean for r in readings(repair, d).values()) for d in (repair.before, repair.after)]
    text = drawn(repair)
    assert f"fullest member {fullest[0]:.2f} -> {fullest[1]:.2f} times the mean" in text
    assert "t-0 is hot" in text


def test_several_repairs_are_one_picture() -> None:
    text = drawn(load_repair(), rack_repair())
    assert text.count("before and after") == 1
    assert text.index("a hot partition") < text.index("a rack")


def test_the_document_refers_to_no_other_document() -> None:
    document = svg(repair_picture([load_repair()]), 100)
    assert document.startswith("<svg")
    assert "url(http" not in document
    assert "@font-face" not in document
