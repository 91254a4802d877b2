"""Steps on the lead: that it lasts through restarts and empty groups, and that what is reported of it is true."""

import json
import signal
import time
from collections.abc import Callable

from confluent_kafka import Consumer, TopicPartition

from tests.interop.support.members import Flock, Member
from tests.measure.role import API, Comparison
from tests.measure.trial.stage import LED_WITHIN_S, Findings, Product, Stage, after, within

SESSION_S = 10.0  # `session_timeout_ms` by default
EMPTY_S = 12.0
ON_THE_WAY = ("", "starting", "joining")  # says nothing of a group yet
SHORT_LINGER_MS = 5_000
FENCED_S = 20.0


def a_restart_after_sigterm_keeps_the_lead(stage: Stage, found: Findings) -> None:
    _restart(stage, found, "restarted-term", signal.SIGTERM, absent_s=0)


def a_restart_after_kill_9_keeps_the_lead(stage: Stage, found: Findings) -> None:
    _restart(stage, found, "restarted-kill", signal.SIGKILL, absent_s=0)


def an_absence_longer_than_the_session_ends_with_the_lead(stage: Stage, found: Findings) -> None:
    _restart(stage, found, "restarted-late", signal.SIGTERM, absent_s=SESSION_S + 5)


def _restart(stage: Stage, found: Findings, group: str, how: signal.Signals, absent_s: float) -> None:
    with stage.bellwether(group) as own, Flock(stage.cluster.bootstrap) as flock:
        stage.led(own, group)
        members = stage.members(flock, group)
        stage.settled(members, group)
        generation, member_entry = stage.rests(group), stage.shown(group).own
        assert stage.shown(group).led_by_bellwether, f"{group} was lost before the restart"
        own.process.stop() if how is signal.SIGTERM else own.process.kill()
        gone_at = time.monotonic()
        time.sleep(absent_s)
        own.process.start(wait=False)
        if within(LED_WITHIN_S, lambda: stage.shown(group).own not in ("", member_entry)) is not None:
            found.note(f"a member again {time.monotonic() - gone_at:.1f} s after its end (session {SESSION_S:.0f} s)")

        def leads() -> bool:
            now = stage.shown(group)
            return now.led_by_bellwether and now.own != member_entry and own.reports_leading(group)

        took_s = within(LED_WITHIN_S, leads)
        found.check(took_s is not None, f"leads again {after(took_s)}")
        passed = stage.brokers.generation(group) - generation
        if absent_s:
            found.note(f"{passed} generations passed")
        else:
            found.check(passed == 0, f"{passed} generations passed")
        if took_s is None:
            found.note(f"it reports {_message(own, group)}; {_last_line(own)}")
        _leads_the_next_rebalance(stage, found, flock, members, group)


def _leads_the_next_rebalance(stage: Stage, found: Findings, flock: Flock, members: list[Member], group: str) -> None:
    generation = stage.brokers.generation(group)
    everybody = [*members, stage.joining(flock, group, rack="az3")]
    stage.settled(everybody, group)
    within(10, lambda: stage.brokers.generation(group) > generation)
    leader = stage.shown(group).leader
    found.check(stage.shown(group).led_by_bellwether, f"the next round is led by {leader.rsplit('-', 5)[0] or leader}")


def a_group_that_was_empty_for_long_is_led_when_its_members_come(stage: Stage, found: Findings) -> None:
    """Longer than `linger_ms` where that is a setting; else as long."""
    group = "empty-for-long"
    short = {"linger_ms": SHORT_LINGER_MS}
    with stage.bellwether(group, options=short) as own, Flock(stage.cluster.bootstrap) as flock:
        stage.led(own, group)
        time.sleep(SHORT_LINGER_MS / 1000 + EMPTY_S)
        found.note(f"empty for {SHORT_LINGER_MS / 1000 + EMPTY_S:.0f} s with linger_ms = {SHORT_LINGER_MS}")
        _led_with_members(stage, found, own, group, lambda: stage.members(flock, group))


def bellwether_first_ends_with_bellwether_leading(stage: Stage, found: Findings) -> None:
    group = "bellwether-first"
    with stage.bellwether(group) as own, Flock(stage.cluster.bootstrap) as flock:
        stage.led(own, group)
        _led_with_members(stage, found, own, group, lambda: stage.members(flock, group))


def the_application_first_ends_with_bellwether_leading(stage: Stage, found: Findings) -> None:
    group = "application-first"
    with Flock(stage.cluster.bootstrap) as flock:
        members = stage.members(flock, group)
        stage.settled(members, group)
        with stage.bellwether(group) as own:
            _led_with_members(stage, found, own, group, lambda: members)


def both_at_once_ends_with_bellwether_leading(stage: Stage, found: Findings) -> None:
    group = "both-at-once"
    with stage.bellwether(group) as own, Flock(stage.cluster.bootstrap) as flock:
        _led_with_members(stage, found, own, group, lambda: stage.members(flock, group))


def _led_with_members(
    stage: Stage, found: Findings, own: Product, group: str, come: Callable[[], list[Member]]
) -> None:
    members = come()
    stage.settled(members, group)
    took_s = within(
        LED_WITHIN_S,
        lambda: (now := stage.shown(group)).led_by_bellwether and now.others > 0 and own.reports_leading(group),
    )
    found.check(took_s is not None, f"leads {after(took_s)}")
    if took_s is None:
        found.note(f"it reports {_message(own, group)}; {_last_line(own)}")


def a_fenced_process_reports_the_truth(stage: Stage, found: Findings) -> None:
    """A second process takes one of two groups under the same instance id, and goes again."""
    group, kept = "fenced", "kept"
    with stage.bellwether(group, kept) as first, Flock(stage.cluster.bootstrap) as flock:
        stage.led(first, group)
        stage.led(first, kept)
        stage.settled(stage.members(flock, group), group)
        member_entry, seen = stage.shown(group).own, Comparison()
        with stage.bellwether(group) as second:
            assert within(LED_WITHIN_S, lambda: second.reports_leading(group)) is not None, second.process.tail(10)
            _compare(stage, seen, first, group, FENCED_S / 2, member_entry)
        _compare(stage, seen, first, group, FENCED_S, member_entry)
        found.check(not seen.differences, "; ".join(seen.differences) or "page and metrics said what brokers show")
        found.note(f"longest difference {seen.longest_s:.1f} s")
        url = ("--url", f"http://{first.address}")
        (row,) = stage.json("top", group, "--once", *url)
        truth = "bellwether" if stage.shown(group).led_by_bellwether else "a member"
        found.check(row["leader"] == truth, f"top says led by {row['leader']}, and {truth} leads")
        code, text = first.get("/readyz")
        still_leads = stage.shown(kept).led_by_bellwether
        found.check(code == 200 if still_leads else True, f"/readyz {code} ({text}) while it leads {kept}")


def _compare(stage: Stage, seen: Comparison, product: Product, group: str, for_s: float, member_entry: str) -> None:
    """`member_entry`: the member id of this process. Another one, which lasts when its process has ended, is not its
    own."""
    until = time.monotonic() + for_s
    while time.monotonic() < until:
        now = stage.shown(group)
        leads = now.led_by_bellwether and now.own == member_entry
        for page, message in product.reported(group).items():
            seen.add(time.monotonic(), page, group, message, leads=leads)
        time.sleep(0.3)


def one_converted_group_of_several_leaves_the_process_ready(stage: Stage, found: Findings) -> None:
    converted, other = "converted", "not-converted"
    stage.cluster.create_topic(converted, 6)
    with Flock(stage.cluster.bootstrap) as flock:
        stage.settled([flock.member("java", converted, [converted], [], protocol="consumer")], converted)
        with stage.bellwether(converted, other) as own:
            stage.led(own, other)
            time.sleep(5)
            code, text = own.get("/readyz")
            found.check(code == 200, f"/readyz {code} ({text})")
            found.check(stage.shown(other).led_by_bellwether, "the other group is led")
            message = own.reported(converted)[API]
            found.check(message is not None and not message.leading, f"the converted one is reported as {message}")


def a_misspelt_group_is_reported_as_such(stage: Stage, found: Findings) -> None:
    """Beside a group that is merely empty: it has committed offsets and no member."""
    empty, misspelt = "spelt-right", "spetl-wrong"
    stage.cluster.create_topic(empty, 6)
    consumer = Consumer({**stage.cluster.client_config("admin", "admin"), "group.id": empty})
    consumer.commit(offsets=[TopicPartition(empty, 0, 0)], asynchronous=False)
    consumer.close()
    with stage.bellwether(empty, misspelt) as own:
        reported_s = within(
            LED_WITHIN_S,
            lambda: _objections(own, misspelt) not in ON_THE_WAY and _objections(own, empty) not in ON_THE_WAY,
        )
        objections, about_empty = _objections(own, misspelt), _objections(own, empty)
        found.check(reported_s is not None, f"of the misspelt one it says {objections or 'nothing'}")
        found.check(objections != about_empty or not objections, f"of the empty one it says {about_empty or 'nothing'}")


def _objections(own: Product, group: str) -> str:
    """What it says against a group: the reason that it reports, else a warning in its log."""
    reason = own.reason(group)
    warned = [e for e in own.process.log(group=group) if e.get("level") in ("warning", "error", "critical")]
    return reason or "; ".join(str(e.get("reason", e["event"])).replace(group, "GROUP") for e in warned[:1])


def _message(own: Product, group: str) -> str:
    try:
        status = [one for one in json.loads(own.get(API)[1]) if one["group"] == group]
    except OSError:
        return f"nothing, the process has ended: {own.process.tail(3)}"
    return json.dumps(status[0]) if status else "nothing"


def _last_line(own: Product) -> str:
    lines = [e for e in own.process.log() if e.get("group")]
    return f"its last line is {lines[-1].get('event')}: {lines[-1].get('reason', '')}" if lines else "its log is silent"
