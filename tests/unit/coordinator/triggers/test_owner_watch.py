"""What the watch on owners posts to a group that is led."""

from bellwether_kafka.assignors.consumer import Policy, decide
from bellwether_kafka.assignors.shared import ClusterView, Memory
from bellwether_kafka.coordinator.membership import (
    DescribedMember,
    Event,
    MembershipView,
    Note,
    NoteKind,
    RebalanceWanted,
    ShownGroup,
    StepAsideWanted,
)
from bellwether_kafka.coordinator.planning import Planned, Timings, WatchedTopics
from bellwether_kafka.coordinator.triggers import OwnerWatch
from tests.kit.consumers import LiveMember, live_group
from tests.kit.membership import ME, Play
from tests.unit.coordinator.triggers.work.members import member

SETTLED_MS = 15_000

REASON = "no member has a partition of u, which members subscribe to"


class Led:
    def __init__(self, play: Play | None = None) -> None:
        self.membership: MembershipView = (play or Play().stable()).machine.view
        self.posted: list[Event] = []
        self.now_s = 0.0
        self.watch = OwnerWatch({"group": self}, lambda: self.now_s)

    def post(self, event: Event) -> None:
        self.posted.append(event)

    def plan(self) -> None:
        cluster = ClusterView.of({"t": [[None]] * 2, "u": [[None]] * 2})
        raw = live_group([LiveMember("a", ("t", "u"))], 1, "range")
        decision = decide(raw, cluster, Memory.empty(), Policy(), now_ms=0)
        self.watch.on_decision(Planned(decision, WatchedTopics(()), Timings(0, 0, 0)))

    def shows(self, *members: DescribedMember) -> list[Event]:
        self.now_s += SETTLED_MS / 1000
        self.watch.on_shown("group", ShownGroup("Stable", "range", members))
        posted, self.posted = self.posted, []
        return posted


def test_it_asks_for_a_plan_and_steps_aside_where_that_does_not_help() -> None:
    led = Led()
    assert led.shows(member("t u", "t")) == [], "nothing has been planned"
    led.plan()
    assert led.shows(member("t u", "t"), member("u", "", ME)) == [RebalanceWanted(REASON, "owners")]
    led.plan()
    assert led.shows(member("t u", "t")) == [StepAsideWanted(REASON)]


def test_what_bellwether_itself_lists_needs_no_owner() -> None:
    led = Led()
    led.plan()
    assert led.shows(member("t", "t"), member("u", "", ME)) == []


def test_partitions_that_are_handed_over_have_no_owner_for_a_moment() -> None:
    led = Led(Play().deciding().planned(pending=True).synced())
    led.plan()
    assert led.shows(member("t u", "t")) == []


def test_a_group_that_is_no_longer_led_is_forgotten() -> None:
    led = Led()
    led.plan()
    led.watch.on_note("group", Note(NoteKind.LEFT, "x"))
    assert led.shows(member("t u", "t")) == []
