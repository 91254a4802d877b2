"""Which rule gives a member its rack, and whether followers count."""

from pathlib import Path

import pytest

from bellwether_kafka.coordinator.planning import NO_RULES, RackRules, RackSource
from bellwether_kafka.coordinator.planning.racks import ConfiguredRack
from bellwether_kafka.coordinator.settings import SettingsError
from tests.kit.plans import rack_rules


def rules(folder: Path) -> RackRules:
    (folder / "racks").write_text("10.0.0.0/8 of-file\n")
    return rack_rules(
        client_ids={"*": "of-any-client", "orders-*": "of-client", "orders-9": "of-one-client"},
        hosts={"10.1.0.0/16": "of-host"},
        file=folder / "racks",
        fetch_from_followers=("orders-*",),
    )


@pytest.mark.parametrize(
    ("client_id", "host", "rack", "source", "leader_only"),
    [
        ("orders-1", "/10.1.0.1", "of-client", RackSource.CLIENT_ID, False),
        ("orders-9", "/10.1.0.1", "of-one-client", RackSource.CLIENT_ID, False),
        ("clicks-1", "/10.1.0.1", "of-any-client", RackSource.CLIENT_ID, True),
        ("", "/10.1.0.1", "of-host", RackSource.HOST, True),
        ("", "/10.2.0.1", "of-file", RackSource.FILE, True),
    ],
)
def test_client_id_then_host_then_file(
    tmp_path: Path, client_id: str, host: str, rack: str, source: RackSource, leader_only: bool
) -> None:
    assert rules(tmp_path).rack_of(client_id, host) == ConfiguredRack(rack, source, leader_only)


def test_a_member_that_no_rule_fits_has_no_rack(tmp_path: Path) -> None:
    assert rules(tmp_path).rack_of("", "/192.168.0.1") == ConfiguredRack(None, RackSource.NONE, False)
    assert NO_RULES.rack_of("orders-1", "/10.1.0.1") == ConfiguredRack()
    assert not NO_RULES
    with pytest.raises(SettingsError, match="fetch_from_followers is for members whose rack is configured"):
        rack_rules(fetch_from_followers=("orders-*",))
