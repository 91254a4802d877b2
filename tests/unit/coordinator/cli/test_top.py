"""The line of `top` about a group, from what brokers show and what pages of sidecars say."""

from bellwether_kafka.coordinator.cli.top import BROKER, MEMBER, NOBODY, US, SidecarReports, ordered, row_of
from bellwether_kafka.coordinator.observation.observation import Observation, ObservedMember

LED = {"reason": "", "detail": "", "remedy": "", "since_ms": 1, "next_attempt_ms": None}
STATUS = {"group": "orders", "leading": True, "role": LED, "generation": 7}


def not_led(reason: str) -> dict[str, object]:
    return {**STATUS, "leading": False, "role": {**LED, "reason": reason, "remedy": "Restart."}}


LINES = [
    {"group": "orders", "decided_at_ms": 2_000, "cause": "m2 joined", "moved": 3},
    {"group": "orders", "decided_at_ms": 1_000, "cause": "m1 joined", "moved": 0},
]


def seen(*instances: str | None, kind: str = "classic", group: str = "orders", lag: int | None = None) -> Observation:
    members = tuple(ObservedMember(f"m{i}", instance, "c", "/h") for i, instance in enumerate(instances))
    lags = {} if lag is None else {"t": (lag, None)}
    return Observation(group, kind, "Stable", "range", 0, members, lags)  # type: ignore[arg-type]  # a literal


def test_a_sidecar_tells_generation_and_the_newest_cause() -> None:
    row = row_of(seen("bellwether", None, None, lag=5), SidecarReports.of([STATUS], LINES), ["bellwether"])
    assert (row.leader, row.generation, row.members, row.lag) == (US, 7, 2, 5)
    assert (row.cause, row.moved, row.cause_at_ms) == ("m2 joined", 3, 2_000)


def test_without_a_page_a_sidecar_is_known_by_its_instance_id() -> None:
    assert row_of(seen("bellwether", None), SidecarReports(), ["bellwether"]).leader == US
    assert row_of(seen("payments-1", None), SidecarReports(), ["bellwether"]).leader == MEMBER
    assert row_of(seen(None), SidecarReports(), [None]).leader == MEMBER
    assert row_of(seen(), SidecarReports(), ["bellwether"]).leader == NOBODY


def test_a_fenced_process_does_not_lead_and_says_why() -> None:
    row = row_of(seen(None, None), SidecarReports.of([not_led("fenced")], LINES), ["bellwether"])
    assert (row.leader, row.generation, row.not_leading, row.remedy) == (MEMBER, None, "fenced", "Restart.")


def test_another_process_that_leads_makes_up_for_a_fenced_one() -> None:
    row = row_of(seen("bellwether", None), SidecarReports.of([not_led("fenced"), STATUS], LINES), ["bellwether"])
    assert (row.leader, row.generation, row.not_leading) == (US, 7, "")


def test_a_group_in_which_nobody_but_us_is_has_no_leader() -> None:
    row = row_of(seen("bellwether"), SidecarReports.of([not_led("unknown_group")], []), ["bellwether"])
    assert (row.leader, row.not_leading) == (NOBODY, "unknown_group")


def test_a_broker_leads_its_own_groups() -> None:
    assert row_of(seen(None, kind="consumer"), SidecarReports(), []).leader == BROKER


def test_who_is_furthest_behind_comes_first() -> None:
    rows = [
        row_of(seen(None, group=name, lag=lag), SidecarReports(), []) for name, lag in (("a", None), ("b", 3), ("c", 9))
    ]
    assert [row.group for row in ordered(rows)] == ["c", "b", "a"]
