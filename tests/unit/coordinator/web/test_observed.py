"""What the page shows of an observed group: who has what, how far it is behind, and what Bellwether's plan would
move."""

import json
from dataclasses import asdict, replace

import numpy as np
import pytest

from bellwether_kafka.coordinator.membership import DescribedMember
from bellwether_kafka.coordinator.observation import SeenRebalance
from bellwether_kafka.coordinator.web import Present, observed, present
from tests.kit.observed import RACKLESS, SKEWED, member, observed_application, observed_group


def items(page: Present) -> dict[str, tuple[str, str, int | None]]:
    return {item.name: (holder.name, item.state, item.lag) for holder in page.holders for item in holder.items}


def test_holders_have_what_they_have_now_and_not_what_they_would_get() -> None:
    assert items(present(SKEWED)) == {
        "orders-0": ("b-1", "cross-rack", 7),
        "orders-1": ("a-1", "cross-rack", None),
        "orders-2": ("b-1", "cross-rack", 0),
        "orders-3": ("b-1", "local", 12_000),
    }
    assert [(holder.name, holder.rack) for holder in present(SKEWED).holders] == [
        ("a-1", "az1"), ("b-1", "az2"), ("c-1", None),
    ]  # fmt: skip


def test_moves_lead_from_what_is_to_bellwethers_plan_and_agree_with_its_counts() -> None:
    page = present(SKEWED)
    assert SKEWED.shadow is not None
    assert len(page.moves) == SKEWED.shadow.moves.moved == page.observed["shadow"]["moves"]["moved"] > 0
    planned = dict(zip(SKEWED.shadow.decision.plan.names(np.arange(4)), SKEWED.shadow.decision.plan.owner, strict=True))
    owners = SKEWED.shadow.decision.plan.owners
    for move in page.moves:
        assert items(page)[move.item][0] == move.source != move.target == owners[planned[move.item]].name


def test_where_no_rack_is_known_nothing_is_reported_to_be_read_in_its_own_rack() -> None:
    shadow = RACKLESS.shadow
    assert shadow is not None
    assert (shadow.cross_rack, shadow.cross_rack_planned) == (None, None)
    costs = present(RACKLESS).observed["shadow"]
    assert (costs["current"]["cross_rack"], costs["current"]["unknown_racks"]) == (None, 4)
    assert (costs["planned"]["cross_rack"], costs["planned"]["unknown_racks"]) == (None, 4)


def test_what_is_known_of_racks_is_reported_with_how_much_is_not() -> None:
    some = observed_group(member("a-1", "az1", "orders-0", "orders-1"), member("b-1", None, "orders-2", "orders-3"))
    assert some.shadow is not None
    assert some.shadow.cross_rack == some.shadow.current.cross_rack
    assert some.shadow.costs()["current"]["unknown_racks"] == 2


def test_unknown_lags_are_counted_and_never_zero() -> None:
    observation = present(SKEWED).observed
    assert (observation["lag"], observation["unknown_lags"]) == (12_007, 1)
    unread = present(replace(SKEWED, lags={}))
    assert (unread.observed["lag"], {lag for *_, lag in items(unread).values()}) == (None, {None})


def test_without_a_plan_members_are_shown_and_nothing_is_reported_of_racks() -> None:
    page = present(observed_group(member("a-1", "az1", "orders-0"), member("b-1", None, "orders-1"), shadow=False))
    assert items(page) == {"orders-0": ("a-1", "neutral", 7), "orders-1": ("b-1", "neutral", None)}
    assert (page.racks, page.moves, page.observed["shadow"]) == (("az1",), (), None)
    assert page.observed["trouble"] == "no shadow plan: the brokers are silent"


def test_a_member_whose_bytes_cannot_be_read_is_shown_with_its_trouble() -> None:
    bad = DescribedMember("bad", None, b"\0", b"", "app", "/h")
    page = present(observed_group(bad, shadow=False))
    assert [(holder.name, bool(holder.degraded)) for holder in page.holders] == [("bad", True)]


def test_it_is_json_with_members_and_the_rebalances_that_were_seen() -> None:
    line = SeenRebalance(8_000, "b joined", 0, 10_000, False, None)
    document = json.loads(json.dumps(asdict(present(SKEWED, [line]))))
    assert document["observed"]["rebalances"] == [asdict(line)]
    assert document["observed"]["verdict"] == "can be led"
    assert document["observed"]["members"][1] == {
        "member_id": "b-1", "instance_id": None, "client_id": "b", "client_host": "/10.0.0.3", "rack": "az2",
        "lag": None, "unknown_lags": 0, "trouble": "",
    }  # fmt: skip
    assert "lags" not in document["observed"], "items have them"


@pytest.mark.parametrize("shadow", [True, False])
def test_a_long_list_is_cut_and_says_so(shadow: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = observed_group(member("a-1", "az1", "orders-0", "orders-1"), member("b-1", None, "orders-2"), shadow=shadow)
    assert not present(seen).truncated
    monkeypatch.setattr(observed, "ITEMS_MAX", 2)
    assert (len(items(present(seen))), present(seen).truncated) == (2, True)


def test_standbys_are_shown_with_the_lag_that_their_process_has_reported() -> None:
    copies = [item for holder in present(observed_application(reported=True)).holders for item in holder.items]
    standbys = [item for item in copies if item.state == "standby"]
    assert standbys
    assert None not in {item.lag for item in standbys}


def test_tasks_of_an_application_are_shown_at_their_processes_with_standbys_and_lags() -> None:
    seen = observed_application()
    assert seen.shadow is not None
    plan = seen.shadow.decision.plan
    lags = {topic: (3,) * int(plan.cluster.counts[i]) for i, topic in enumerate(plan.cluster.topics)}
    page = present(replace(seen, lags=lags))
    assert page.kind == "streams"
    copies = [item for holder in page.holders for item in holder.items]
    active = [item for item in copies if item.state != "standby"]
    assert sorted(item.name for item in active) == sorted(name for m in seen.members for name in m.active)
    assert (
        sorted(i.name for i in copies if i.state == "standby")
        == sorted(t for m in seen.members for t in m.standby)
        != []
    )
    assert {item.lag for item in copies if item.state == "standby"} == {None}
    assert all(item.lag is not None and item.lag % 3 == 0 and item.lag > 0 for item in active)
    topic = next(iter(lags))
    partly = present(replace(seen, lags=lags | {topic: (None,) * len(lags[topic])}))
    assert None in {item.lag for h in partly.holders for item in h.items if item.state != "standby"}, "not all is known"
