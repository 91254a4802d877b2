"""Doctor advises nothing that run refuses, and says of consumers nothing that holds for Streams only."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from bellwether_kafka.assignors.consumer import POLICIES
from bellwether_kafka.coordinator.membership import STREAMS_PROTOCOL, MembershipConfig
from bellwether_kafka.coordinator.observation import Finding, Level, Observation, ObservedMember, next_steps
from bellwether_kafka.coordinator.observation.health import DoctorFacts, examine
from bellwether_kafka.coordinator.settings import GroupSettings, Settings, load, policies_of
from bellwether_kafka.protocol.messages import PROTOCOL as STATEFUL_PROTOCOL
from tests.unit.coordinator.observation.doctor_groups import LIMITS, application, consumers, thread

Entry = dict[str, Any]
STABLE = "Stable"
EXACTLY_ONCE = {"kind": "streams", "processing.guarantee": "exactly_once_v2", "stores": "persistent"}


def loaded(entry: Entry) -> Settings:
    """As run reads it. Raises where run refuses."""
    settings = load(None, {"kafka": {"bootstrap.servers": "b:9092"}, "groups": [{"name": "g"} | entry]}, environ={})
    policies_of([group for group in settings.groups if group.streams is None])
    return settings


def under(entry: Entry, facts: DoctorFacts) -> DoctorFacts:
    """The facts with these settings of the group."""
    settings = loaded(entry)
    (group,) = settings.groups
    policies = policies_of([group]) if group.streams is None else {}
    return replace(
        facts,
        config=group.membership(settings.instance_id),
        mode=group.mode,
        streams=group.streams,
        ghosts=group.ghost_options,
        policy=policies.get("g", facts.policy),
    )


def followed(entry: Entry, advice: str) -> Iterator[Entry]:
    """The settings after the advice, once for each way that it leaves, other than to keep what is."""
    for part in advice.split("; "):
        if " keep " not in part:
            yield from _followed(entry, part)


def _followed(entry: Entry, advice: str) -> Iterator[Entry]:
    value = r'(?:"[^"]*"|\[[^\]]*\]|true|false|\d+)'
    written = re.findall(rf'"?([a-z_.]+)"? = ({value}(?: or {value})*)', advice)
    removed = re.findall(r"[Rr]emove ([a-z_]+)(?: = \w+)?", advice)
    if not written and not removed:
        return
    ways = [[(name, way) for way in re.findall(value, values)] for name, values in written if name not in removed]
    for chosen in product(*ways):
        kept = {name: value for name, value in entry.items() if name not in removed}
        yield kept | {name: json.loads(text) for name, text in chosen}


def members(protocol: str, *of: ObservedMember) -> DoctorFacts:
    seen = Observation("g", "classic", STABLE, protocol, 0, of)
    return DoctorFacts(seen, MembershipConfig("g"), "lead", 25, ("az1",), LIMITS, (4, 3))


def within(facts: DoctorFacts, low: int, high: int) -> DoctorFacts:
    return replace(facts, limits={"group.min.session.timeout.ms": low, "group.max.session.timeout.ms": high})


EMPTY = DoctorFacts(
    Observation("g", "classic", "Empty", "", 0, ()), MembershipConfig("g"), "lead", 25, ("az1",), LIMITS
)
NAMED = replace(thread("m", 1), client_id="billing")

CASES: dict[str, tuple[str, Entry, DoctorFacts]] = {
    "a protocol that nobody knows": ("protocols", {"mode": "lead"}, members("roundrobin_v2")),
    "a protocol with quotes": ("protocols", {"mode": "lead"}, members("a\"b'c")),
    "a protocol that is not offered": ("protocols", {"mode": "lead", "protocols": ["range"]}, members("sticky")),
    "an application": ("protocols", {"mode": "lead"}, members(STREAMS_PROTOCOL)),
    "an application, protocols set": ("protocols", {"protocols": ["range"]}, members(STREAMS_PROTOCOL)),
    "stateful members": ("protocols", {"mode": "lead"}, members(STATEFUL_PROTOCOL)),
    "consumers taken for an application": ("protocols", {"mode": "lead", "kind": "streams"}, members("range")),
    "a session below the brokers'": ("session timeout", {"mode": "lead"}, within(members("range"), 30_000, 60_000)),
    "a session above the brokers'": ("session timeout", {"mode": "lead"}, within(members("range"), 6_000, 9_500)),
    "an empty group that is led": ("subscribes", {"mode": "lead"}, EMPTY),
    "an empty group that is observed": ("subscribes", {}, EMPTY),
    "exactly once, observed": ("exactly once", EXACTLY_ONCE, application(None)),
    "exactly once, without ghosts": (
        "exactly once",
        {"mode": "lead", "ghosts": False, **EXACTLY_ONCE},
        application(None),
    ),
    "client.id is set, observed": ("ghosts", {"kind": "streams"}, members(STREAMS_PROTOCOL, NAMED)),
    "client.id is set, led": ("ghosts", {"kind": "streams", "mode": "lead"}, members(STREAMS_PROTOCOL, NAMED)),
    "a file that is not attested": (
        "topology",
        {"kind": "streams", "topology": "t.yaml"},
        application(None),
    ),
    "a take-over without a declaration": ("take-over", {"kind": "streams", "mode": "lead"}, application(None)),
}


def checked(facts: DoctorFacts, name: str) -> Finding | None:
    return next((check for check in examine(facts) if check.kind == name), None)


@pytest.mark.parametrize("case", CASES)
def test_what_doctor_advises_can_be_loaded_and_helps(case: str) -> None:
    name, entry, facts = CASES[case]
    before = checked(under(entry, facts), name)
    assert before is not None
    assert before.level in (Level.WARN, Level.FAIL), before
    advice = f"{before.message} {before.remedy}" if name == "take-over" else before.remedy
    ways = [way for way in followed(entry, advice) if way != entry]
    assert ways, before.remedy
    for way in ways:
        after = checked(under(way, facts), name)
        assert after is None or after.level is Level.PASS, (way, after)


@pytest.mark.slow
def test_every_setting_that_doctor_names_is_in_a_case() -> None:
    folder = Path(examine.__code__.co_filename).parent
    source = "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py")))
    named = (
        set(re.findall(r'\b([a-z_]+) = (?:"\w+"|true|false|\[\{|\{nearest|\{kind)', source))
        & GroupSettings.model_fields.keys()
    )
    advised = " ".join(
        check.remedy for name, entry, facts in CASES.values() if (check := checked(under(entry, facts), name))
    )
    assert len(named) > 3
    assert {name for name in named if name not in advised} == set()


def test_a_protocol_that_run_refuses_is_not_passed_by_doctor() -> None:
    """It passed what run refused: the name was in protocols."""
    facts = members("roundrobin_v2")
    verdict = checked(replace(facts, config=replace(facts.config, protocols=("roundrobin_v2",))), "protocols")
    assert verdict is not None
    assert verdict.level is Level.FAIL
    assert 'policy = "sticky-min-churn" or "rack-first"' in verdict.remedy


def test_what_run_says_of_a_protocol_can_be_followed() -> None:
    entry = {"mode": "lead", "protocols": ["roundrobin_v2"]}
    with pytest.raises(Exception, match="unknown assignor 'roundrobin_v2'") as error:
        loaded(entry)
    for way in followed(entry, str(error.value)):
        assert way["policy"] in POLICIES
        loaded(way)


def test_a_session_that_only_the_brokers_can_allow_is_theirs_to_change() -> None:
    facts = within(application(None), 30_000, 60_000)
    verdict = checked(under({"kind": "streams", "mode": "lead"}, facts), "session timeout")
    assert verdict is not None
    assert verdict.remedy.startswith("Change group.min.session.timeout.ms of the brokers to 10000")


@pytest.mark.parametrize("facts", [members("range"), members(STREAMS_PROTOCOL), members(STATEFUL_PROTOCOL)])
def test_the_step_to_a_lead_can_be_loaded(facts: DoctorFacts) -> None:
    seen = replace(facts.seen, group_id='a"b', state=STABLE)
    facts = replace(facts, mode="observe", seen=seen)
    (step,) = (step for step in next_steps(facts, []) if step.startswith("Lead it"))
    written = dict(re.findall(r'(\w+) = ("(?:[^"\\]|\\.)*")', step))
    assert json.loads(written["name"]) == 'a"b'
    (entry,) = followed({}, step.replace('name = "a\\"b", ', ""))
    assert loaded(entry).groups[0].mode == "lead"
    assert loaded(entry).groups[0].protocols[0] in (seen.protocol, "cooperative-sticky")


OF_STREAMS = re.compile(
    r"Streams|topolog|\btasks?\b|changelog|standby|instances|processing\.guarantee|restores", re.IGNORECASE
)


def _consumer_facts() -> Iterator[DoctorFacts]:
    for case, (_, entry, facts) in CASES.items():
        if (
            facts.seen.protocol not in (STREAMS_PROTOCOL, STATEFUL_PROTOCOL)
            and case != "consumers taken for an application"
        ):
            yield under(entry, facts)
    for facts in (consumers(0, 3), consumers(3), EMPTY, members("range", NAMED)):
        for trouble in ("", "the brokers are silent"):
            seen = replace(facts.seen, trouble=trouble, shadow=facts.seen.shadow if not trouble else None)
            yield replace(facts, seen=seen)
            yield replace(facts, seen=seen, heartbeat_error=30, limits={}, broker_racks=(None,), broker_version=())


@pytest.mark.slow
def test_no_sentence_for_streams_is_reported_of_consumers() -> None:
    message = {
        sentence
        for facts in _consumer_facts()
        for checks in [examine(facts)]
        for check in checks
        for sentence in (check.message, check.remedy, *next_steps(facts, checks))
    }
    assert len(message) > 30
    assert not [sentence for sentence in message if OF_STREAMS.search(sentence)]


def test_newer_consumers_get_their_share_and_newer_streams_keep_what_they_have() -> None:
    facts = consumers(3, 3)
    assert facts.seen.shadow is not None
    decision = facts.seen.shadow.decision
    first = decision.raw.members[0]
    newer = replace(first, member_id="m9", metadata=b"\x00\x09" + first.metadata[2:])
    raw = replace(decision.raw, members=(*decision.raw.members, newer))
    shadow = replace(facts.seen.shadow, decision=replace(decision, raw=raw))
    verdict = checked(replace(facts, seen=replace(facts.seen, shadow=shadow)), "versions")
    assert verdict is not None
    assert verdict.remedy == "They get their share by the fields that Bellwether knows; upgrade Bellwether."
