"""/livez and /readyz while our JoinGroup is parked: a leader that waits for members is alive and ready."""

import threading
import urllib.request

import pytest

from protocol.consumer import ConsumerProtocolSubscription
from tests.interop.bellwether import Bellwether
from tests.interop.brokers import LOOPBACK, KafkaCluster, PortLease
from tests.interop.members import wait_until
from tests.interop.raw import RawMember, describe

GROUP = "probed-orders"
SESSION_MS = 120_000  # nobody is thrown out while the test looks


def answer(address: str, path: str) -> tuple[int, str]:
    with urllib.request.urlopen(f"http://{address}{path}", timeout=30) as said:
        return said.status, said.read().decode().strip()


@pytest.mark.proof
@pytest.mark.timeout(240)
def test_a_leader_that_waits_in_a_join_is_alive_and_ready(kafka: KafkaCluster) -> None:
    kafka.create_topic(GROUP, 4)
    protocols = [("range", ConsumerProtocolSubscription(topics=(GROUP,)).encode())]
    lease = PortLease()
    address = f"{LOOPBACK}:{lease.port}"

    def state() -> str:
        return describe(kafka.bootstrap, GROUP).state

    with (
        Bellwether(kafka, [GROUP], http_address=address) as lead,
        RawMember(kafka.bootstrap, GROUP, protocols, session_ms=SESSION_MS) as first,
        RawMember(kafka.bootstrap, GROUP, protocols, session_ms=SESSION_MS) as second,
    ):
        first.round()
        wait_until(lambda: state() == "Stable", 60, lead.tail)
        joining = threading.Thread(target=second.round, daemon=True)
        joining.start()
        # The round is held up until the first member joins again, for as long as its rebalance timeout (30 s).
        wait_until(lambda: state() == "PreparingRebalance", 60, lead.tail)
        told = [answer(address, path) for path in ("/livez", "/readyz", "/livez", "/readyz")]
        leading = 'bellwether_leading{group="probed-orders"} 1.0' in answer(address, "/metrics")[1]
        still = state()
        first.round()
        joining.join(60)
        assert told == [(200, "ok")] * 4
        assert leading
        assert still == "PreparingRebalance", "the answers came while the leader waited"
        assert not joining.is_alive()
        assert sorted(m.instance_id or "" for m in describe(kafka.bootstrap, GROUP).members) == ["", "", "bellwether"]
    lease.release()
