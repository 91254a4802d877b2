"""What is said of groups, as claims that can be compared with samples of the truth. A claim is wrong only where nothing
that may have been true makes it right; what is said to be unknown is not wrong."""

import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.lab.truth.reader import Partition, Sample

AGE_S = 35.0  # what is shown without a time is of a refresh every ten seconds, which may wait for brokers
READ_S = 8.0  # what is shown with a time has been read within so long before it
LATE_S = 1.5
# Series of a reason or a pair of racks, which end with it.
ENDING = ("group_not_leading", "cross_rack_read_partitions")
GAP_S = 6.0  # between samples anything may have happened, but no group ends while its members run
INSTANCE = "bellwether"


@dataclass(frozen=True, slots=True)
class Claim:
    """`since` and `until` (epoch seconds): the value was true at some moment between them, they say."""

    where: str
    group: str
    what: str
    value: Any
    since: float
    until: float

    def __str__(self) -> str:
        return f"{self.until:.0f} {self.where} says of {self.group}: {self.what} {self.value!r}"


def now(where: str, group: str, what: str, value: Any, at: float) -> Claim:
    """Of something that is shown without a time."""
    return Claim(where, group, what, value, at - AGE_S, at + LATE_S)


def of_moment(where: str, group: str, what: str, value: Any, at: float) -> Claim:
    return Claim(where, group, what, value, at - READ_S, at + LATE_S)


def of_overview(where: str, rows: Sequence[Mapping[str, Any]], groups: Sequence[str], at: float) -> Iterator[Claim]:
    by_name = {row["group"]: row for row in rows}
    for group in groups:
        row = by_name.get(group)
        if row is None:
            yield now(where, group, "exists", False, at)
            continue
        yield now(where, group, "leading", row["leading"], at)
        if row["unknown"] is not None or row["trouble"]:
            yield now(where, group, "unknown", row["trouble"], at)
            continue
        if row["members"] is not None:
            yield now(where, group, "members", row["members"], at)
        if row["type"] == "missing":
            yield now(where, group, "exists", False, at)
        if row["mode"] == "observe" and row["state"] not in ("not known", "not seen yet"):
            yield now(where, group, "state", row["state"], at)
        if row["lag"] is not None:
            yield now(where, group, "lag", (row["lag"], row["unknown_lags"]), at)
        if row["unowned"]:
            yield now(where, group, "unowned", row["unowned"], at)
        yield now(where, group, "assigned_by", row["assigned_by"].lower(), at)
        for finding in row["findings"]:
            yield now(where, group, "problem", finding["kind"], at)


def of_document(where: str, document: Mapping[str, Any], at: float) -> Iterator[Claim]:
    """What `describe` and the page of a group say."""
    group, seen_at = document["group"], document.get("seen_at_ms", 0) / 1000
    if document["unknown"] is not None:
        yield now(where, group, "unknown", document["unknown"]["reason"], at)
        return
    yield of_moment(where, group, "members", len(document["members"]), seen_at)
    yield of_moment(where, group, "state", document["state"].lower(), seen_at)
    yield Claim(where, group, "age", seen_at, at, at)
    for anomaly in document["anomalies"]:
        yield now(where, group, "anomaly", anomaly["kind"], at)
    report = document["lag_report"]
    for row in report["partitions"] if report else ():
        place, read_at = (row["topic"], row["partition"]), report["at_ms"] / 1000
        for what in ("committed", "end"):
            if row[what] is not None:
                yield of_moment(where, group, what, (place, row[what]), read_at)
        if row["lag"] is not None:
            yield of_moment(where, group, "lag_of", (place, row["lag"]), read_at)
        yield now(where, group, "problem", row["verdict"], at)


def of_listed(
    where: str, rows: Sequence[Mapping[str, Any]], message: str, groups: Sequence[str], at: float
) -> Iterator[Claim]:
    """What `groups` says; `message`, on standard error, is that some are left out."""
    by_name = {row["group"]: row for row in rows}
    for group in groups:
        if group in by_name:
            yield now(where, group, "assigned_by", by_name[group]["assigned_by"].lower(), at)
            yield now(where, group, "state", by_name[group]["state"].lower(), at)
        elif "left out" not in message:
            yield now(where, group, "exists", False, at)


LABELLED = re.compile(r"^bellwether_(\w+)\{([^}]*)\} (\S+)$", re.MULTILINE)
LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


def of_metrics(text: str, groups: Sequence[str], at: float) -> Iterator[Claim]:
    series: dict[str, dict[tuple[str, str], float]] = {group: {} for group in groups}
    for name, labels, value in LABELLED.findall(text):
        by_label = dict(LABEL.findall(labels))
        group = by_label.pop("group", "")
        if group in series:
            series[group][name, next(iter(by_label.values()), "")] = float(value)
    for group, values in series.items():
        yield from _of_series(group, values, at)


def _of_series(group: str, values: Mapping[tuple[str, str], float], at: float) -> Iterator[Claim]:
    where = "/metrics"
    unknown = values.get(("observed_unknown", ""), 0) == 1
    if unknown:
        yield now(where, group, "unknown", 1, at)
    for (name, label), value in values.items():
        if math.isnan(value):
            continue
        if name == "members" and not unknown:
            yield now(where, group, "members", int(value), at)
        if name in ("observed_unowned", "unowned_partitions") and label in ("", "current") and value and not unknown:
            yield now(where, group, "unowned", int(value), at)
        if name == "group_leading":
            yield now(where, group, "leading", value == 1, at)
        if name == "anomalies" and value:
            yield now(where, group, "anomaly", label, at)
        if name == "lag_partitions" and value:
            yield now(where, group, "problem", label, at)
    lag, read_at = values.get(("lag_records", ""), math.nan), values.get(("lag_timestamp_seconds", ""))
    missing = values.get(("lag_unknown_partitions", ""), 0)
    if read_at is not None and not math.isnan(lag):
        yield of_moment(where, group, "lag", (int(lag), int(missing)), read_at)
    # Each series that was there once: what cannot be read ages, or is NaN, and does not vanish.
    yield Claim(where, group, "series", frozenset(values), at, at)


Rule = Callable[[Claim, Sequence[Sample]], str | None]


class Judge:
    """Compares claims with samples of the truth; the method of each `what` returns what `wrong` returns."""

    def __init__(self, samples: Mapping[str, Sequence[Sample]], partitions: Mapping[str, Sequence[Partition]]) -> None:
        self._samples = samples
        self._partitions = partitions
        self._series: dict[str, frozenset[Any]] = {}

    def wrong(self, claim: Claim) -> str | None:
        """Why it is wrong, "" where it is not, None where the samples do not say."""
        if claim.what == "unknown":
            return ""
        if claim.what == "series":
            return self._vanished(claim)
        if claim.what == "age":
            return f"that is {claim.until - claim.value:.0f} s old" if claim.until - claim.value > AGE_S else ""
        samples = self._around(claim)
        if samples is None:
            return None
        rule: Rule = getattr(self, claim.what)
        return rule(claim, samples)

    def _vanished(self, claim: Claim) -> str:
        before = self._series.get(claim.group, frozenset())
        self._series[claim.group] = claim.value | before
        gone = sorted(str(series) for series in before - claim.value if series[0] not in ENDING)
        return f"series have vanished: {gone}" if gone else ""

    def _around(self, claim: Claim, place: Partition | None = None) -> Sequence[Sample] | None:
        """From the last sample before the claim's time to the first sample after it, of those that know this partition:
        where its broker is silent, that may be a minute later."""
        samples = [sample for sample in self._samples[claim.group] if place is None or place in sample.ends]
        first = next((i for i in range(len(samples) - 1, -1, -1) if samples[i].ended <= claim.since), None)
        last = next((i for i, sample in enumerate(samples) if sample.begun >= claim.until), None)
        return None if first is None or last is None else samples[first : last + 1]

    def exists(self, claim: Claim, samples: Sequence[Sample]) -> str:
        return "" if any(sample.state == "Dead" for sample in samples) else "it does"

    def members(self, claim: Claim, samples: Sequence[Sample]) -> str | None:
        counts = {len(sample.members) - len({INSTANCE} & sample.instances) for sample in samples}
        if min(counts) <= claim.value <= max(counts):
            return ""
        return f"there were {sorted(counts)}" if claim.value == 0 or _close(samples) else None

    def state(self, claim: Claim, samples: Sequence[Sample]) -> str | None:
        states = {sample.state.lower() for sample in samples}
        if claim.value in states:
            return ""
        rebalancing = {"preparingrebalance", "completingrebalance"}
        if claim.value in rebalancing and len({sample.members for sample in samples}) > 1:
            return ""  # shorter than the time between samples
        return f"it was {sorted(states)}" if claim.value in ("dead", "empty") or _close(samples) else None

    def leading(self, claim: Claim, samples: Sequence[Sample]) -> str:
        led = any(INSTANCE in sample.instances for sample in samples)
        return "Bellwether is not in the group" if claim.value and not led else ""

    def assigned_by(self, claim: Claim, samples: Sequence[Sample]) -> str:
        led = {INSTANCE in sample.instances for sample in samples}
        others = {len(sample.members) > len({INSTANCE} & sample.instances) for sample in samples}
        fits = {
            "bellwether": True in led,
            "a member": False in led and True in others,
            "nobody": False in others and False in led,
            "unknown": True,
            "": True,
        }
        return "" if fits.get(claim.value, False) else f"led by Bellwether {led}, with members {others}"

    def lag(self, claim: Claim, _: Sequence[Sample]) -> str | None:
        (lag, unknown), each = claim.value, [self._lag_of(claim, p) for p in self._partitions[claim.group]]
        if None in each:
            return None
        low, high = (sum(bounds[i] for bounds in each if bounds is not None) for i in (0, 1))
        low = 0 if unknown else low
        return "" if low <= lag <= high else f"it was {low} to {high}"

    def lag_of(self, claim: Claim, _: Sequence[Sample]) -> str | None:
        place, lag = claim.value
        bounds = self._lag_of(claim, place)
        return None if bounds is None else "" if bounds[0] <= lag <= bounds[1] else f"it was {bounds}"

    def committed(self, claim: Claim, samples: Sequence[Sample]) -> str | None:
        return _between(claim.value, [sample.committed for sample in samples])

    def end(self, claim: Claim, _: Sequence[Sample]) -> str | None:
        return _between(claim.value, [sample.ends for sample in self._around(claim, claim.value[0]) or ()])

    def problem(self, claim: Claim, samples: Sequence[Sample]) -> str | None:
        reason = claim.value
        if reason in ("ok", "unknown", "waits", "not_led", "not_seen", "rebalance_storm", "no_owner"):
            return ""  # said elsewhere, or no claim on what is read here
        if reason == "nobody_reads":
            return self.members(Claim(claim.where, claim.group, "members", 0, claim.since, claim.until), samples)
        if reason in ("stalled", "stopped", "falling_behind"):
            return self._no_progress(claim)
        return "nothing is wrong with it"

    def anomaly(self, claim: Claim, _: Sequence[Sample]) -> str:
        return "nothing is wrong with it"

    def unowned(self, claim: Claim, samples: Sequence[Sample]) -> str | None:
        steady = len({sample.members for sample in samples}) == 1 and {sample.state for sample in samples} == {"Stable"}
        return "members have all of it" if steady and _close(samples) and samples[0].members else None

    def _no_progress(self, claim: Claim) -> str:
        """Whether five minutes before it some partition was not read on, although records were there."""
        window = [sample for sample in self._samples[claim.group] if claim.until - 300 <= sample.begun <= claim.until]
        if not window or window[-1].ended - window[0].begun < 270:
            return "Bellwether has not seen five minutes"
        for place in self._partitions[claim.group]:
            lags = [sample.ends[place] - sample.committed.get(place, 0) for sample in window if place in sample.ends]
            if lags and min(lags) > 0:
                return ""
        return "each partition was read to its end within five minutes"

    def _lag_of(self, claim: Claim, place: Partition) -> tuple[int, int] | None:
        samples = self._around(claim, place) or ()
        ends = [sample.ends[place] for sample in samples if place in sample.ends]
        committed = [sample.committed[place] for sample in samples if place in sample.committed]
        if not ends or not committed:
            return None
        return max(0, min(ends) - max(committed)), max(0, max(ends) - min(committed))


def _between(value: tuple[Partition, int], samples: Sequence[Mapping[Partition, int]]) -> str | None:
    place, offset = value
    offsets = [sample[place] for sample in samples if place in sample]
    if len(offsets) < 2:
        return None
    return "" if min(offsets) <= offset <= max(offsets) else f"it was {min(offsets)} to {max(offsets)}"


def _close(samples: Sequence[Sample]) -> bool:
    return all(after.begun - before.ended <= GAP_S for before, after in itertools.pairwise(samples))


def parsed(text: str) -> Any:
    """None where a command was ended or says it in words."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return None
