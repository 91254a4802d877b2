"""Finds the problems of a group, with what Bellwether would avoid and what it cannot, and a configuration. Pure."""

import textwrap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from bellwether_kafka.coordinator.assessment.model import Measures, Period, PolicyRow
from bellwether_kafka.coordinator.assessment.policies import best
from bellwether_kafka.coordinator.membership import AT_REST, STREAMS_PROTOCOL
from bellwether_kafka.coordinator.names import for_shell, for_toml, listed
from bellwether_kafka.coordinator.observation import (
    BY_TOPIC,
    SELF_ASSIGNED,
    UNEVEN,
    WRONG_ASSIGNMENT,
    Finding,
    FindingKind,
    Observation,
    group_of,
    how_to_name_racks,
    of_kind,
)
from bellwether_kafka.coordinator.settings import GroupSettings

COMMENT_WIDTH = 120
LEAD, ASSIST, OBSERVE = 'mode = "lead"', 'mode = "assist"', 'mode = "observe"'
FEWEST_MOVES = 'policy = "sticky-min-churn"'
WHY = {
    FEWEST_MOVES: "moves least, and no policy costs less",
    BY_TOPIC: "spreads each topic evenly, and no policy costs less",
}
CHEAPEST = "costs least of those compared"
ONE_OWNER = "Each partition that exists has one owner, which subscribes to its topic."
ALIVE = (
    "To the broker a member that sends heartbeats is alive, even if it does not read: Bellwether moves nothing off it"
    " unless it is ordered to (bellwether evacuate)."
)
LAGS: Mapping[str, str] = {
    FindingKind.STOPPED: "Bellwether gives partitions without an owner to members.",
    FindingKind.STALLED: "",
    FindingKind.FALLING_BEHIND: "",
}
_PLACE: Mapping[str, int] = {kind: place for place, kind in enumerate(FindingKind)}


@dataclass(frozen=True, slots=True)
class AssessedFacts:
    """The facts for findings. `rows` are as in an assessment. `best` is the row of the policy to lead with, None if no
    plan is known."""

    seen: Observation
    now: Measures | None
    rows: Sequence[PolicyRow]
    periods: Sequence[Period]
    best: PolicyRow | None
    currency: str

    @property
    def item(self) -> str:
        shadow = self.seen.shadow
        return shadow.decision.plan.words.item if shadow is not None else "partition"

    @classmethod
    def of(
        cls,
        seen: Observation,
        now: Measures | None,
        rows: Sequence[PolicyRow],
        periods: Sequence[Period],
        currency: str,
    ) -> "AssessedFacts":
        return cls(seen, now, rows, periods, best(rows), currency)


def findings(facts: AssessedFacts) -> tuple[Finding, ...]:
    """Returns what every face shows of the group, with what Bellwether would avoid, and what it costs, the worst kinds
    first. Empty for a group without problems. A setting is proposed only where it would have an effect: none makes
    Bellwether lead a group that no client can lead."""
    every = sorted((finding for find in _FINDERS for finding in find(facts)), key=lambda each: _PLACE[each.kind])
    hypothetical = facts.seen.hypothetical
    return tuple(replace(each, setting="") if each.setting and hypothetical else each for each in every)


def _no_client_leads(facts: AssessedFacts) -> Iterator[Finding]:
    if facts.seen.obstacle:
        remedy = f"{_sentence(facts.seen.obstacle)} It can be observed and compared."
        yield of_kind(FindingKind.NO_CLIENT_LEADS, "No client assigns in this group.", remedy)


def _shown(facts: AssessedFacts) -> Iterator[Finding]:
    """Yields what every face shows, with what Bellwether would do about it."""
    now = facts.now
    for each in group_of(facts.seen, unowned=now.unowned if now is not None else None).findings:
        if each.kind == FindingKind.NO_OWNER:
            yield from _unowned(each, facts)
        elif facts.seen.can_be_led and each.setting:
            yield replace(each, avoided=each.remedy, remedy="")
        elif facts.seen.can_be_led and each.kind in WRONG_ASSIGNMENT:
            yield replace(each, avoided=ONE_OWNER, remedy="", setting=LEAD)
        elif each.kind in LAGS:
            yield replace(each, avoided=LAGS[each.kind], remedy=ALIVE)
        else:
            yield each


def _unowned(finding: Finding, facts: AssessedFacts) -> Iterator[Finding]:
    to = facts.best
    if facts.seen.hand_overs:  # what is being given up; the anomaly names who has to
        return
    if to is None or to.measures is None:
        yield finding
        return
    yield replace(finding, avoided=f"{to.policy} leaves {to.measures.unowned} without one.", setting=LEAD)


def _stuck(facts: AssessedFacts) -> Iterator[Finding]:
    stuck_ms = max((period.stuck_ms for period in facts.periods), default=0)
    seen = facts.seen
    if seen.kind == "classic" and seen.state not in AT_REST:
        lasted = f" for {stuck_ms / 1000:.0f} s at least" if stuck_ms else ""
        yield of_kind(
            FindingKind.STUCK_REBALANCE,
            f"The group is {seen.state}{lasted}, and in an eager group nobody consumes meanwhile.",
            "The rebalance waits for a live member that does not join again: only max.poll.interval.ms of the"
            " application limits that.",
            avoided="Bellwether removes members that are proven dead, so that the rebalance does not wait for them.",
            setting=ASSIST,
        )


def _racks(facts: AssessedFacts) -> Iterator[Finding]:
    now, to = facts.now, facts.best
    named = [member for member in facts.seen.members if member.rack]
    if now is not None and now.cross_rack is None and not named:
        cannot = f"What crosses racks is unknown without client.rack. {how_to_name_racks(facts.seen)}"
        yield of_kind(FindingKind.CROSS_RACK, "No member names a rack.", cannot)
        return
    if now is None or not now.cross_rack:
        return
    message = f"{_crossing(now, facts)} cross racks."
    if to is None or to.measures is None or (to.measures.cross_rack or 0) >= now.cross_rack:
        cannot = "No policy does better: members of the racks that hold replicas have their share already."
        yield of_kind(FindingKind.CROSS_RACK, message, cannot)
        return
    left = _crossing(to.measures, facts)
    cannot = "What is left has no replica beside a member with room for it." if to.measures.cross_rack else ""
    avoided = f"{to.policy} leaves {left}, with {to.moves} moves."
    yield of_kind(FindingKind.CROSS_RACK, message, cannot, avoided=avoided, setting=_policy(to))


def _skew(facts: AssessedFacts) -> Iterator[Finding]:
    now, to = facts.now, facts.best
    if now is None or now.imbalance <= UNEVEN:
        return
    message = f"The fullest member has {now.imbalance:.2f} times the mean, by {'load' if now.by_load else 'count'}."
    even = min((r for r in facts.rows if r.leads and r.measures), key=_imbalance, default=None)
    if even is None or _imbalance(even) >= now.imbalance:
        remedy = "No policy is more even: there are not enough partitions, or one is too heavy."
        yield of_kind(FindingKind.UNEVEN_MEMBERS, message, remedy)
        return
    other = "" if to is even or to is None else f", where {to.policy} has {_imbalance(to):.2f}"
    avoided = f"{even.policy} has {_imbalance(even):.2f}, with {even.moves} moves{other}."
    cannot = "" if now.by_load else "By count only: load is not known without weights (docs/guides/pipeline.md)."
    yield of_kind(FindingKind.UNEVEN_MEMBERS, message, cannot, avoided=avoided, setting=_policy(even))


def _storms(facts: AssessedFacts) -> Iterator[Finding]:
    for storm in (storm for period in facts.periods for storm in period.storms):
        minutes = max(1, round((storm.to_ms - storm.from_ms) / 60_000))
        behind = f", most often: {storm.behind}" if storm.behind else ""
        yield of_kind(
            FindingKind.REBALANCE_STORM,
            f"{storm.rebalances} rebalances within {minutes} min{behind}.",
            avoided="Each would move no more than the change asks for, under any protocol name (sticky-min-churn).",
            remedy="The application decides who joins and leaves: check the members named here, their poll loop"
            " and their deployment.",
            setting=FEWEST_MOVES,
        )


def _waits(facts: AssessedFacts) -> Iterator[Finding]:
    ghosts = [ghost for period in facts.periods for ghost in period.ghosts]
    if ghosts:
        names = listed(list(dict.fromkeys(ghost.client_id for ghost in ghosts)))
        seconds = sum(period.ghost_s or 0.0 for period in facts.periods)
        yield of_kind(
            FindingKind.GHOSTS,
            f"Dead members kept their place for {seconds:.0f} s at least: {names}.",
            avoided="They are removed as soon as their successors prove them dead.",
            setting=ASSIST,
        )
    waited = sum(period.waited_member_s or 0.0 for period in facts.periods)
    if waited:
        yield of_kind(
            FindingKind.SESSION_TIMEOUTS,
            f"The group waited {waited:.0f} member-seconds at least for members that never came back.",
            avoided="bellwether guard beside an instance ends its memberships when it is gone.",
            remedy="A member without a successor or a guard is proven dead by its session only.",
            setting=ASSIST,
        )


def _imbalance(row: PolicyRow) -> float:
    return row.measures.imbalance if row.measures is not None else float("inf")


def _crossing(measures: Measures, facts: AssessedFacts) -> str:
    """Describes the reads across racks as far as known, such as `3 partitions, 2.00 MB/s, 0.1440 EUR per hour`."""
    parts = [f"{measures.cross_rack} {facts.item}{'' if measures.cross_rack == 1 else 's'}"]
    if measures.bytes_per_s is not None:
        parts.append(f"{measures.bytes_per_s / 1e6:,.2f} MB/s")
    if measures.cost_per_hour is not None:
        parts.append(f"{measures.cost_per_hour:,.4f} {facts.currency} per hour")
    return ", ".join(parts)


def _policy(row: PolicyRow) -> str:
    return f'policy = "{row.policy}"'


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:].rstrip('.')}."


_FINDERS: tuple[Callable[[AssessedFacts], Iterator[Finding]], ...] = (
    *(_no_client_leads, _shown, _stuck, _waits, _storms, _racks, _skew),
)


def configuration(facts: AssessedFacts, reported: Sequence[Finding]) -> str:
    """Returns the lines of bellwether.toml to begin with, which address the findings, each with its reason."""
    seen, lines = facts.seen, ["[[groups]]", f"name = {for_toml(facts.seen.group_id)}"]
    settings = {finding.setting for finding in reported}
    if not seen.can_be_led:
        return _text([*lines, f"{OBSERVE}  # no client can lead it"])
    if seen.self_assigned:
        return _text([*lines, f"{OBSERVE}  # {SELF_ASSIGNED}"])
    if LEAD in settings or any(setting.startswith("policy") for setting in settings):
        lines.append(f"{LEAD}  # observe first: the same lines with {OBSERVE}")
        lines += _how(facts, settings)
    elif ASSIST in settings:
        lines.append(f"{ASSIST}  # joins nothing, removes members that are proven dead")
        lines += _kind(facts)
    else:
        lines.append(f"{OBSERVE}  # nothing found that leading it would avoid")
    return _text(lines)


def to_lead(facts: AssessedFacts) -> str:
    """Returns the lines for leading the group, regardless of findings. Settings of an application that only its
    operator knows are commented out, so that the lines can be loaded as they are."""
    lines = ["[[groups]]", f"name = {for_toml(facts.seen.group_id)}", LEAD, *_undeclared(facts)]
    return _text(lines + _by(facts))


def _how(facts: AssessedFacts, settings: Collection[str]) -> list[str]:
    """Returns the lines after `mode = "lead"`."""
    return [*_kind(facts), *_by(facts, settings)]


def _by(facts: AssessedFacts, settings: Collection[str] = ()) -> list[str]:
    """Returns the line with the policy that costs least. Among equally good ones it is the one that findings suggest:
    the one with fewest moves if there are storms, or the one that spreads topics if these are uneven."""
    if facts.best is None:
        return []
    good = {_policy(row) for row in facts.rows if _as_good(row, facts.best)}
    asked = next((setting for setting in WHY if setting in settings and setting in good), None)
    return [f"{asked}  # {WHY[asked]}"] if asked is not None else [f"{_policy(facts.best)}  # {CHEAPEST}"]


def _as_good(row: PolicyRow, other: PolicyRow) -> bool:
    """Returns whether a policy is as good as the other, apart from its moves."""
    return row.measures is not None and row.measures == other.measures


def _kind(facts: AssessedFacts) -> list[str]:
    if facts.seen.protocol != STREAMS_PROTOCOL:
        return []
    name = facts.seen.group_id
    return [
        'kind = "streams"',
        f"topology = {for_toml(f'{name}.yaml')}  # {_learn(name)}",
    ]


def _undeclared(facts: AssessedFacts) -> list[str]:
    """Returns the settings that an application's members do not send, as comments, and why leading waits for them."""
    if not facts.seen.protocol:
        return ['# No member shows what kind of group it is. If it is a Streams application, write kind = "streams".']
    if facts.seen.protocol != STREAMS_PROTOCOL:
        return []
    name = facts.seen.group_id
    obstacle = GroupSettings(name=name, mode="lead", kind="streams").takeover_obstacle()
    return [
        'kind = "streams"',
        "# Declare the next lines as the application has them, because its members do not send them.",
        *(_comment(f"Until then it is not taken over: {obstacle.sentence}.") if obstacle is not None else []),
        f"#topology = {for_toml(f'{name}.yaml')}  # {_learn(name)}",
        "#topology_attested = true  # if every version of the application that may join has this topology",
        '#"processing.guarantee" = "at_least_once"  # or "exactly_once_v2"',
        '#stores = "persistent"  # or "in-memory"',
        '#"num.standby.replicas" = 0',
        '#"rack.aware.assignment.strategy" = "none"',
    ]


def _learn(group_id: str) -> str:
    """Returns how to write the topology file, as the end of a comment line."""
    return f"write it with: bellwether topology learn {for_shell(group_id)} > {for_shell(f'{group_id}.yaml')}"


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, COMMENT_WIDTH, initial_indent="# ", subsequent_indent="# ")


def _text(lines: Sequence[str]) -> str:
    return "\n".join(lines) + "\n"
