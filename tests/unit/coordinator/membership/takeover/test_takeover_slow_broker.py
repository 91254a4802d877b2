"""A broker that answers slowly lets Bellwether try fewer member ids while members wait: members are not disturbed for a
search that would find none (285 ids were assumed in two seconds, 57 came at a load of nine)."""

from bellwether_kafka.coordinator.membership import events as e
from bellwether_kafka.coordinator.membership.broker_order import HashOrder, MemberTable, tables, unavoidable
from bellwether_kafka.coordinator.membership.config import MembershipConfig, SizeLimit
from bellwether_kafka.coordinator.membership.table_growth import Forecasts
from tests.unit.coordinator.membership.playbook import Play
from tests.unit.coordinator.membership.takeover.takeover_scenes import client, in_order

MEMBERS = 40
TABLE = MemberTable(HashOrder.JAVA, 64)
CONFIG = MembershipConfig("orders", instance_id="bellwether")


def crowd() -> tuple[e.DescribedMember, ...]:
    """Many members, none in the first slot, as the broker lists them."""
    names = (f"consumer-{number}" for number in range(10 * MEMBERS))
    chosen = [name for name in names if not unavoidable([name], TABLE)][:MEMBERS]
    return in_order(*(client(name, name) for name in chosen), buckets=TABLE.buckets)


CROWD = crowd()


def watching(**settings: object) -> Play:
    return Play(
        adopt="take-over", instance_id="bellwether", size_limit=SizeLimit(1_000), **settings
    ).coordinator_found()


def answered_after(play: Play, seconds: float) -> list[str]:
    """The commands after the next description, which takes this long."""
    play.later(seconds).described("Stable", *CROWD, protocol="range")
    return play.kinds()


def begins(tries: int | None) -> bool:
    ids = [m.member_id for m in CROWD]
    return Forecasts().forecast(ids, tables(ids), "", CONFIG.evictions_max, 1_000, tries).begins


def test_a_slower_broker_lets_fewer_ids_be_tried() -> None:
    assert CONFIG.tries_max(None) == CONFIG.tries_max(0.5) == 285
    assert CONFIG.tries_max(20.0) == 33
    assert MembershipConfig("orders").tries_max(20.0) is None


def test_a_crowd_is_taken_over_where_the_broker_is_fast() -> None:
    assert begins(CONFIG.tries_max(1.0))
    assert answered_after(watching(), 0.001) == ["Decide"]


def test_a_crowd_is_left_alone_where_the_broker_is_slow_and_the_remedy_is_named() -> None:
    assert not begins(CONFIG.tries_max(100.0))
    play = watching()
    assert answered_after(play, 0.1) == []
    assert play.machine.role.detail == "" or "roll_ms_max" not in play.machine.role.detail, (
        "it may have been connecting"
    )
    answered_after(play.wake(), 0.1)
    assert "Decide" not in play.kinds()
    assert "raise roll_ms_max" in play.machine.role.detail


def test_answer_times_that_differ_a_little_change_neither_the_log_nor_the_role() -> None:
    """A blocked group is described every second: with the time of each answer in it, each led to two log lines."""
    play = watching()
    answered_after(play, 0.1)
    details = set()
    for seconds in (0.1, 0.12, 0.09, 0.15, 0.11, 0.14, 0.1):
        answered_after(play.wake(), seconds)
        details.add(play.machine.role.detail)
    assert len(details) == len(play.notes()) == 1
    for _ in range(5):
        answered_after(play.wake(), 0.9)
    assert "answers in 900 ms" in play.machine.role.detail


def test_the_time_to_connect_is_not_taken_for_a_slow_broker() -> None:
    play = watching()
    answered_after(play, 0.5)
    assert answered_after(play.wake(), 0.001) == ["Decide"]


def test_one_slow_answer_of_many_is_no_slow_broker() -> None:
    play = watching(takeover_obstacle=None)
    for seconds in (0.001, 0.001, 0.001):
        play.later(seconds).described("CompletingRebalance", *CROWD, protocol="range").wake()
    assert answered_after(play, 0.5) == ["Decide"]
