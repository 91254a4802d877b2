"""Bytes, money and configuration of groups whose members, racks and weights are known exactly."""

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bellwether_kafka.assignors.consumer import Policy, decide
from bellwether_kafka.assignors.shared import ClusterView, Memory, Weights
from bellwether_kafka.coordinator.assessment import (
    Assessment,
    Prices,
    configuration_to_lead,
    grids,
    lines,
    page,
)
from bellwether_kafka.coordinator.assessment.model import PolicyRow
from bellwether_kafka.coordinator.assessment.policies import rows_of
from bellwether_kafka.coordinator.observation import (
    SELF_ASSIGNED,
    Observation,
    ObservedMember,
    Shadow,
)
from bellwether_kafka.coordinator.settings import load
from bellwether_kafka.protocol.primitives import TopicPartition
from tests.kit.consumers import LiveMember, live_group
from tests.kit.observed import PRICES, crossed, group_lag, reported, sample
from tests.kit.streams import settled_application


def row(rows: tuple[PolicyRow, ...], policy: str) -> PolicyRow:
    (only,) = [row for row in rows if row.policy == policy]
    return only


def test_bytes_and_money_are_reported_now_and_under_every_policy() -> None:
    assessed = reported(crossed(), PRICES)
    now = row(assessed.rows, "now").measures
    assert now is not None
    assert (now.cross_rack, now.bytes_per_s) == (4, 4e6)
    assert now.cost_per_hour == pytest.approx(0.288), "4 MB/s are 14.4 GB an hour"
    best = row(assessed.rows, "rack-first").measures
    assert best is not None
    assert (best.cross_rack, best.bytes_per_s, best.cost_per_hour) == (0, 0.0, 0.0)
    (finding,) = assessed.findings
    assert finding.message == "4 partitions, 4.00 MB/s, 0.2880 EUR per hour cross racks."


def test_the_configuration_is_one_to_begin_with() -> None:
    assessed = reported(crossed('a "quoted" name'), PRICES)
    (group,) = tomllib.loads(assessed.configuration)["groups"]
    assert group == {"name": 'a "quoted" name', "mode": "lead", "policy": "kafka"}


def test_a_group_that_no_client_can_lead_is_observed_and_reported_why() -> None:
    assessed = reported(replace(crossed(), kind="consumer", obstacle="its broker assigns"), PRICES)
    (why,) = [finding for finding in assessed.findings if finding.kind == "no_client_leads"]
    assert why.remedy.startswith("Its broker assigns.")
    (group,) = tomllib.loads(assessed.configuration)["groups"]
    assert group["mode"] == "observe"


def test_without_weights_bytes_are_a_dash_and_a_reason() -> None:
    assessed = reported(crossed(), Prices())
    now = row(assessed.rows, "now").measures
    assert now is not None
    assert (now.cross_rack, now.bytes_per_s, now.cost_per_hour) == (4, None, None)
    assert row(assessed.rows, "load-aware").measures is None
    assert any("no partition has a weight" in line for line in lines(assessed))
    assert "-" in grids(assessed)[0].rows[0]


def test_a_group_without_members_has_no_numbers() -> None:
    assessed = reported(Observation("g", "classic", "Empty", "", 0), PRICES)
    assert (assessed.rows, assessed.findings) == ((), ())
    assert "no members" in assessed.unknown[0]


def self_assigned() -> Observation:
    """Of consumers that read on without being members."""
    lag = replace(group_lag(sample(0, {"t": [1]}, {"t": [4]})), self_assigned=True)
    seen = Observation("g", "classic", "Empty", "", 0, group_lag=lag)
    return seen.with_anomalies(at_rest=True)


def test_consumers_that_assign_themselves_are_shown_as_such_and_not_to_be_led() -> None:
    assessed = reported(self_assigned(), PRICES)
    assert assessed.verdict == SELF_ASSIGNED
    assert SELF_ASSIGNED in assessed.unknown[0]
    assert [finding.kind for finding in assessed.findings] == ["self_assigned"]
    assert 'mode = "observe"' in assessed.configuration


def with_anomalies(seen: Observation) -> Assessment:
    return reported(seen.with_anomalies(at_rest=True), PRICES)


def test_a_partition_with_two_owners_is_found_and_a_plan_would_avoid_it() -> None:
    seen = crossed()
    owned = (TopicPartition("t", 0),)
    assessed = with_anomalies(replace(seen, members=tuple(replace(m, owned=owned) for m in seen.members)))
    (reported_finding,) = [finding for finding in assessed.findings if finding.kind == "two_owners"]
    assert "t-0 (a, b)" in reported_finding.message
    assert 'mode = "lead"' in assessed.configuration


def test_topics_that_drifted_apart_are_found_and_balance_by_topic_is_the_setting() -> None:
    cluster = ClusterView.of({"busy": [["az1"]] * 4, "quiet": [["az1"]] * 4})
    topics = ("busy", "quiet")
    now = decide(
        live_group([LiveMember("a", topics), LiveMember("b", topics)], 2), cluster, Memory.empty(), Policy(), 0
    )
    members = tuple(ObservedMember(name, None, name, "/h", topics=topics) for name in "ab")
    shadow = Shadow.of(now, np.array([0] * 4 + [1] * 4, dtype=np.int32))
    assessed = with_anomalies(Observation("g", "classic", "Stable", "cooperative-sticky", 0, members, shadow=shadow))
    assert [finding.setting for finding in assessed.findings if finding.kind == "uneven_topic"] == [
        'policy = "topic-balance"'
    ]
    assert 'policy = "topic-balance"' in assessed.configuration
    (racks,) = [finding for finding in assessed.findings if finding.kind == "cross_rack"]
    assert racks.remedy.startswith("What crosses racks is unknown without client.rack. Set client.rack on them")


@pytest.mark.slow
def test_an_application_is_compared_with_its_policies_and_its_broker() -> None:
    decision, holdings = settled_application("az1", "az2", standbys=1)
    members = tuple(
        ObservedMember(name, None, name, "/h", active=tuple(map(str, has.active)), standby=tuple(map(str, has.standby)))
        for name, has in holdings.items()
    )
    shadow = Shadow.of(decision, decision.plan.owner)
    rows = rows_of(Observation("app", "classic", "Stable", "stream", 0, members, shadow=shadow), Prices())
    assert [row.policy for row in rows] == ["now", "kafka", "streams-ha", "sticky", "load-aware", "broker-sticky"]
    broker = row(rows, "broker-sticky")
    assert (broker.leads, broker.moves) == (False, 0)
    assert broker.measures is not None
    assert broker.measures.imbalance == 1.0
    assert row(rows, "load-aware").why == "no partition has a weight"
    plan = decision.plan
    weights = Weights({plan.cluster.name(flat): 1_000.0 for flat in range(plan.cluster.partition_total)})
    seen = Observation("app", "classic", "Stable", "stream", 0, members, shadow=shadow)
    loaded = row(rows_of(seen, Prices(weights=weights)), "load-aware")
    assert (loaded.why, loaded.measures is not None and loaded.measures.by_load) == ("", True)


def test_the_page_says_names_and_runs_none_of_them() -> None:
    assessed = reported(crossed("<script>alert(1)</script>"), PRICES)
    html = page([assessed])
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert "0.2880" in html


def test_a_group_that_is_to_be_led_gets_the_policy_that_costs_least() -> None:
    (group,) = tomllib.loads(configuration_to_lead(crossed("g"), PRICES))["groups"]
    assert group == {"name": "g", "mode": "lead", "policy": "kafka"}


def test_an_application_that_is_to_be_led_has_its_declarations_commented_out(tmp_path: Path) -> None:
    decision, _ = settled_application("az1", "az2")
    shadow = Shadow.of(decision, decision.plan.owner)
    lines = configuration_to_lead(Observation("app", "classic", "Stable", "stream", 0, shadow=shadow), Prices())
    (as_written,) = tomllib.loads(lines)["groups"]
    assert as_written == {"name": "app", "mode": "lead", "kind": "streams", "policy": "kafka"}
    assert "processing.guarantee is not declared; write" in lines
    assert max(map(len, lines.splitlines())) <= 120
    file = tmp_path / "bellwether.toml"
    file.write_text('[kafka]\n"bootstrap.servers" = "b:1"\n' + re.sub("^#(?! )", "", lines, flags=re.MULTILINE))
    group = load(file, environ={}).groups[0]
    assert group.streams is not None
    assert group.topology is not None
    assert (group.topology.name, group.topology_attested, group.stores) == ("app.yaml", True, "persistent")
    assert group.takeover_obstacle() is None, "as declared, nothing keeps it from being taken over"


def test_an_empty_group_that_is_to_be_led_is_reported_that_its_kind_is_not_known() -> None:
    lines = configuration_to_lead(Observation("g", "classic", "Empty", "", 0), Prices())
    assert tomllib.loads(lines)["groups"] == [{"name": "g", "mode": "lead"}]
    assert 'write kind = "streams"' in lines


def test_a_group_id_with_a_line_break_leaves_its_comment_on_one_line() -> None:
    decision, _ = settled_application("az1", "az2")
    seen = Observation("a\n[x]", "classic", "Stable", "stream", 0, shadow=Shadow.of(decision, decision.plan.owner))
    (group,) = tomllib.loads(configuration_to_lead(seen, Prices()))["groups"]
    assert group["name"] == "a\n[x]"
