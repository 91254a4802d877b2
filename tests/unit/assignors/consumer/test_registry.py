"""Names to code: stock names, plug-ins, and errors that list what would have been right."""

from pathlib import Path

import pytest

from bellwether_kafka.assignors.consumer import BUILT_IN, POLICIES, Policy, load_policies, policy
from bellwether_kafka.assignors.consumer.chain import Balance
from bellwether_kafka.assignors.consumer.range import RangeAssignor
from bellwether_kafka.assignors.consumer.registry import assignor
from bellwether_kafka.assignors.shared import UnknownNameError, load_plugins


class Mine(RangeAssignor):
    name = "mine"
    cooperative = True


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_every_protocol_name_has_an_assignor(name: str) -> None:
    assert assignor(name) is BUILT_IN[name]
    assert BUILT_IN[name].cooperative is (name == "cooperative-sticky")
    assert Policy("kafka").cooperative(name) is (name == "cooperative-sticky")


def test_an_unknown_assignor_names_itself_and_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"'rnage'.*cooperative-sticky.*range.*roundrobin"):
        assignor("rnage")


def test_an_unknown_policy_names_itself_and_the_known_ones() -> None:
    with pytest.raises(UnknownNameError, match=r"'fast'.*kafka, load-aware, mine, rack-first, sticky-min-churn"):
        policy("fast", {"mine": Mine()})


@pytest.mark.parametrize("name", POLICIES)
def test_stock_policies_have_a_placement_first(name: str) -> None:
    chain = policy(name).chain("range")
    assert chain[0].hard
    assert chain[0].name.startswith("placement by")


def test_a_plug_in_can_be_the_policy_or_a_protocol() -> None:
    mine = Mine()
    assert policy("mine", {"mine": mine}).chain("range")[0].name == "placement by mine"
    under_kafka = policy("kafka", {"mine": mine})
    assert under_kafka.chain("mine")[0].name == "placement by mine"
    assert under_kafka.chain("range")[0].name == "placement by range"
    assert under_kafka.cooperative("mine")


def test_soft_stages_come_last() -> None:
    stage = Balance("own")
    assert Policy("rack-first", stages=(stage,)).chain("range")[-1] is stage


def test_plug_ins_are_loaded_by_configured_name_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "plugins-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: plugins\nVersion: 1.0\n")
    points = "mine = bellwether_test_plugin:Mine\nbroken = no_such_module:Thing\n"
    (installed / "entry_points.txt").write_text(f"[bellwether.assignors]\n{points}")
    plugin = "from assignors.consumer.range import RangeAssignor\nclass Mine(RangeAssignor):\n    name = 'mine'\n"
    (tmp_path / "bellwether_test_plugin.py").write_text(plugin)
    monkeypatch.syspath_prepend(tmp_path)
    assert load_plugins([]) == {}
    loaded = load_plugins(["mine"])
    assert policy("mine", loaded).chain("range")[0].name == "placement by mine"
    policies = load_policies(["mine", "kafka", "mine"])
    assert [*policies] == ["mine", "kafka"]
    assert policies["mine"].assignors["mine"].name == "mine"
    with pytest.raises(UnknownNameError, match=r"'theirs'.*broken, mine"):
        load_plugins(["theirs"])


def test_policies_are_equal_whatever_clock_measures_them() -> None:
    assert Policy("kafka", clock=lambda: 1.0) == Policy("kafka")
    assert Policy("kafka") != Policy("load-aware")
