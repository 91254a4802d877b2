"""What counts of a control topic that is read again."""

from dataclasses import replace

from bellwether_kafka.coordinator.control import InstanceHeartbeat, LastRecords, Order, OrderKind, Record

LEAVE = Order(OrderKind.LEAVE, "orders", "eve", 0, 1_000)
PAUSE = Order(OrderKind.PAUSE, "clicks", "eve", 0, 500)
ALIVE = InstanceHeartbeat("pod-1")


def records(*read: Record) -> LastRecords:
    last = LastRecords()
    for record in read:
        assert last.take(record.key, record)
    return last


def test_in_one_log_each_record_counts_at_once() -> None:
    last = records(LEAVE, replace(LEAVE, at_ms=1), LEAVE)
    assert last.take(LEAVE.key, None)
    assert last.at_end(0) == ({}, [])


def test_of_a_log_that_is_read_again_the_last_record_of_each_key_counts_at_its_end() -> None:
    last = records(LEAVE)
    last.begin_again()
    for key, record in ((PAUSE.key, PAUSE), (LEAVE.key, LEAVE), (PAUSE.key, None), (ALIVE.key, ALIVE)):
        assert not last.take(key, record)
    assert last.at_end(0) == ({LEAVE.key: LEAVE, PAUSE.key: None, ALIVE.key: ALIVE}, [])
    assert last.take(PAUSE.key, PAUSE)


def test_what_a_deleted_topic_had_has_ended_and_orders_in_force_are_named() -> None:
    last = records(LEAVE, PAUSE, ALIVE)
    last.begin_again()
    assert last.at_end(600) == ({LEAVE.key: None, PAUSE.key: None}, [LEAVE.sentence]), "the other had expired"
    last.begin_again()
    assert last.at_end(600) == ({}, []), "they are named once"


def test_a_log_that_begins_again_twice_is_compared_with_what_was_read() -> None:
    last = records(LEAVE)
    last.begin_again()
    last.take(PAUSE.key, PAUSE)
    last.begin_again()
    assert last.at_end(0) == ({LEAVE.key: None}, [LEAVE.sentence])
