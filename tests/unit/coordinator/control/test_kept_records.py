"""What a control topic that was created again lacks."""

from dataclasses import replace

from bellwether_kafka.coordinator.control import InstanceHeartbeat, Order, OrderKind, Record
from bellwether_kafka.coordinator.control.kept_records import AGAIN_MS, KeptRecords

LEAVE = Order(OrderKind.LEAVE, "orders", "eve", 0, 1_000)
PAUSE = Order(OrderKind.PAUSE, "clicks", "eve", 0, 500)


def kept(*read: Record) -> KeptRecords:
    records = KeptRecords()
    for record in read:
        records.take(record.key, record)
    return records


def test_a_new_log_lacks_what_it_does_not_have_and_what_has_not_expired() -> None:
    records = kept(LEAVE, PAUSE, InstanceHeartbeat("pod-1"))
    assert records.lacking(0) == [], "it is the same log"
    records.begin_anew()
    assert records.lacking(500) == [LEAVE]
    assert records.lacking(600) == [], "it may still be on its way"


def test_what_is_not_read_back_is_written_again_for_a_while() -> None:
    """A producer that has just learned that there is no such topic refuses the first attempt."""
    records = kept(replace(LEAVE, expires_ms=10**9))
    records.begin_anew()
    attempts = [len(records.lacking(second * 1_000)) for second in range(1, 600)]
    assert sum(attempts) == 12
    assert attempts[0] == 1
    records.begin_anew()
    assert len(records.lacking(700_000)) == 1
    records.take(LEAVE.key, LEAVE)
    assert records.lacking(710_000) == []


def test_an_order_of_the_new_log_counts_and_one_that_is_withdrawn_there_does_not_come_back() -> None:
    records = kept(LEAVE, PAUSE)
    records.begin_anew()
    records.take(LEAVE.key, replace(LEAVE, owner="ann"))
    records.take(PAUSE.key, None)
    assert records.lacking(0) == []
    records.begin_anew()
    assert records.lacking(0) == [replace(LEAVE, owner="ann")]


def test_a_log_that_begins_anew_twice_is_compared_with_what_was_read() -> None:
    records = kept(LEAVE)
    records.begin_anew()
    records.begin_anew()
    assert records.lacking(0) == [LEAVE]
    records.take(LEAVE.key, LEAVE)  # as it was written again
    records.begin_anew()
    assert records.lacking(0) == [LEAVE]


def test_an_order_whose_withdrawal_was_not_written_before_the_log_was_deleted_does_not_come_back() -> None:
    records = kept(LEAVE)
    records.withdraw(LEAVE.key)
    records.begin_anew()
    assert records.lacking(0) == []


def test_a_withdrawn_order_that_another_instance_writes_again_is_withdrawn_again() -> None:
    """That instance had not read the withdrawal when the log was deleted."""
    records, slow = kept(LEAVE), kept(LEAVE)
    records.take(LEAVE.key, None)
    assert records.written_again(0) == []
    records.begin_anew()
    slow.begin_anew()
    (again,) = slow.lacking(0)
    records.take(again.key, again)
    assert records.written_again(0) == [LEAVE.key]
    records.withdraw(LEAVE.key)
    assert records.written_again(0) == []
    slow.take(LEAVE.key, None)
    assert slow.lacking(10_000) == []


def test_a_withdrawn_order_that_another_instance_writes_again_does_not_count() -> None:
    """It was in force until its withdrawal was read: Bellwether left the group, and came back."""
    records = kept(LEAVE)
    records.take(LEAVE.key, None)
    assert records.take(LEAVE.key, LEAVE) == {LEAVE.key: None}
    assert records.written_again(0) == [LEAVE.key]
    newer = replace(LEAVE, at_ms=1)
    assert records.take(LEAVE.key, newer) == {LEAVE.key: newer}


def test_of_a_log_that_is_read_again_the_last_record_of_each_key_counts_at_its_end() -> None:
    records, alive = kept(LEAVE), InstanceHeartbeat("pod-1")
    assert records.at_end() == {}
    records.begin_anew()
    for key, record in ((PAUSE.key, PAUSE), (LEAVE.key, LEAVE), (PAUSE.key, None), (alive.key, alive)):
        assert records.take(key, record) == {}
    assert list(records.at_end().items()) == [(LEAVE.key, LEAVE), (PAUSE.key, None), (alive.key, alive)]
    assert records.take(PAUSE.key, replace(PAUSE, at_ms=1)) == {PAUSE.key: replace(PAUSE, at_ms=1)}


def test_an_older_version_that_another_instance_writes_again_gives_way_to_the_newest() -> None:
    """An instance that had not read the newest one when the log was deleted brought the older one back for all."""
    first, second, third = (
        replace(LEAVE, at_ms=ms, expires_ms=10**9) for ms in (2, 1, 0)
    )  # clocks of operators differ
    records, slow = kept(first, second, third), kept(first)
    for each in (records, slow):
        each.begin_anew()
        each.at_end()
    log = [*records.lacking(0), *slow.lacking(0)]
    assert log == [third, first]
    assert [records.take(LEAVE.key, record) for record in log] == [{LEAVE.key: third}] * 2
    assert [slow.take(LEAVE.key, record) for record in log] == [{LEAVE.key: third}] * 2
    assert records.due(0) == slow.due(0) == [], "each waits for what it has written"
    assert records.due(AGAIN_MS) == slow.due(AGAIN_MS) == [(LEAVE.key, third)]
    assert records.take(LEAVE.key, third) == {LEAVE.key: third}
    assert records.due(2 * AGAIN_MS) == []


def test_an_older_version_does_not_come_back_after_a_withdrawal_either() -> None:
    first, second = LEAVE, replace(LEAVE, reason="longer")
    records = kept(first, second)
    records.take(LEAVE.key, None)
    records.begin_anew()
    records.at_end()
    assert records.take(LEAVE.key, first) == {LEAVE.key: None}
    assert records.due(0) == [(LEAVE.key, None)]


def test_no_version_of_a_withdrawn_order_comes_back_with_a_log_that_lost_its_end() -> None:
    """The newest one did, because the one before it was taken for what had been withdrawn."""
    versions = LEAVE, replace(LEAVE, reason="longer")
    records = kept(*versions)
    records.take(LEAVE.key, None)
    records.begin_anew()
    for version in versions:
        records.take(LEAVE.key, version)
    assert records.at_end() == {LEAVE.key: None}
    assert records.due(0) == [(LEAVE.key, None)]


def test_instances_agree_where_a_record_is_written_again_behind_an_operators_new_one() -> None:
    """Each took the other's for an older version, and wrote its own again."""
    first, second, new = (replace(LEAVE, at_ms=ms, expires_ms=10**9) for ms in (0, 1, 2))
    records, slow = kept(first, second), kept(first)
    for each in (records, slow):
        each.begin_anew()
        each.at_end()
        for record in (first, new, second):
            each.take(LEAVE.key, record)
    written = [(key, record) for key, record in (*records.due(0), *slow.due(0)) if record is not None]
    counts = [[each.take(key, record)[key] for key, record in written] for each in (records, slow)]
    assert counts == [[new], [new]]
    assert records.due(AGAIN_MS) == slow.due(AGAIN_MS) == []


def test_in_one_log_an_older_version_is_an_order_like_any_other() -> None:
    records = kept(LEAVE, replace(LEAVE, reason="longer"))
    assert records.take(LEAVE.key, LEAVE) == {LEAVE.key: LEAVE}


def test_a_withdrawal_is_written_again_now_and_then_until_it_is_read() -> None:
    """It was written at each poll, five times a second, while the new topic did not take it."""
    records = kept(replace(LEAVE, expires_ms=10**9))
    again = replace(LEAVE, expires_ms=10**9)
    records.take(LEAVE.key, None)
    records.begin_anew()
    records.take(LEAVE.key, again)
    written = [len(records.written_again(tenth * 100)) for tenth in range(600 * 10)]
    assert (sum(written), written[0], sum(written[1:50]), written[50]) == (12, 1, 0, 1)


def test_a_new_order_after_a_withdrawn_one_remains() -> None:
    records = kept(LEAVE)
    records.take(LEAVE.key, None)
    records.take(LEAVE.key, replace(LEAVE, at_ms=1))
    assert records.written_again(0) == []
    records.take(LEAVE.key, LEAVE)
    assert records.written_again(LEAVE.expires_ms) == [], "it has expired"
