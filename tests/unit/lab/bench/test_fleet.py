"""The simulated fleet does what its figures say: it leads, settles, heartbeats in time, and pays for its work with
time."""

import pytest

from tests.lab.bench.fleet import Fleet


@pytest.mark.slow
def test_a_fleet_leads_all_its_groups_and_sends_heartbeats_in_time() -> None:
    fleet = Fleet(3, 3, 7)
    with fleet.first:
        fleet.settle()
        began, spent_s = fleet.clock.now, fleet.spent_s
        fleet.pass_time(10.0)
        gaps = fleet.heartbeats_since(began)
        assert len(gaps) >= 3 * 8
        assert fleet.spent_s > spent_s
        fleet.forget_shares()
        assert fleet.join() > 0
        assert len(fleet.shares) >= 3
        assert fleet.record_bytes > 3 * 30


@pytest.mark.slow
def test_work_takes_time_and_what_comes_meanwhile_waits() -> None:
    fleet = Fleet(1, 2, 4)
    with fleet.first:
        fleet.first.leader.start()
        process = fleet.first.servers[0].running
        assert process is not None
        process.paused_until = fleet.clock.now + 5.0  # the processor does something else
        fleet.pass_time(4.0)
        assert not fleet.first.leader.leads
        fleet.pass_time(20.0)
        assert fleet.first.heartbeats[0] > 5.0
