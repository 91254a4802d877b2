"""What goes out to stateful members is read back before it leaves."""

from bellwether_kafka.assignors.shared.decision import Decision
from bellwether_kafka.assignors.stateful.translate import from_streams, inspect_stateful
from bellwether_kafka.assignors.streams.plan import TaskPlan
from bellwether_kafka.protocol.messages.consumer import ConsumerProtocolAssignment
from bellwether_kafka.protocol.messages.stateful import StatefulAssignment, Task
from tests.unit.assignors.streams.world import Thread, group, led


def decision() -> Decision[TaskPlan]:
    return led(group(Thread("a", 1), Thread("b", 2)))


def test_a_translation_that_says_what_was_decided_is_fine() -> None:
    made = decision()
    assert inspect_stateful(made, from_streams(made)) == ()


def test_bytes_that_do_not_read_back_are_found() -> None:
    made = decision()
    (first, _), *rest = from_streams(made)
    finding = f"the assignment of {first} does not read back"
    assert inspect_stateful(made, ((first, b"\0"), *rest))[0].startswith(finding)
    bare = ConsumerProtocolAssignment(1, (), None).encode()
    assert inspect_stateful(made, ((first, bare), *rest))[0].startswith(finding)


def test_another_plan_is_found() -> None:
    made = decision()
    (first, blob), *rest = from_streams(made)
    partitions = ConsumerProtocolAssignment.decode(blob).partitions
    other = ConsumerProtocolAssignment(1, partitions, StatefulAssignment(active=(Task(9, 9),)).encode()).encode()
    assert inspect_stateful(made, ((first, other), *rest)) == (f"the assignment of {first} is not that of the plan",)
