"""What a fault cost beside what was promised, shown by kinds."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault, and what it must result in."""

    name: str
    must: str


KINDS = {
    "death": Kind(
        "The sidecar is killed at each step of a rebalance",
        "Bellwether's session timeout at most, three beats where a standby waits; no assignment without bytes ever",
    ),
    "term": Kind(
        "SIGTERM, or an internal error, at each step",
        "the group is given away before the process ends, with exit code 0 after SIGTERM",
    ),
    "solver": Kind(
        "A plan hangs, raises, dies or eats all memory",
        "its process is killed at the decision deadline and a cheaper plan goes out",
    ),
    "node": Kind(
        "The coordinator node dies, ends or moves at each step",
        "errors of the protocol are ordinary: the group is found again and joined again, nothing is sent twice",
    ),
    "connection": Kind(
        "Partitions, half-open and cut connections",
        "Bellwether's session and decision deadline at most where it cannot reach the broker",
    ),
    "slow": Kind(
        "A slow broker, a slow link, bytes one by one", "no busy loop, frames are put together, the deadline holds"
    ),
    "pause": Kind(
        "The process is paused, or its event loop is blocked",
        "what it sends afterwards is refused or not sent; Bellwether's session at most",
    ),
    "clock": Kind("The wall clock jumps", "no timer moves and no rebalance starts"),
    "storm": Kind(
        "Members flap",
        "work per rebalance is bounded; when the storm is over the group rests as soon as it would without Bellwether",
    ),
    "poison": Kind(
        "Poison in subscriptions and userData", "one degraded member that gets nothing it cannot read; the others go on"
    ),
    "wedge": Kind(
        "A broker up to 4.3 is wedged by a member's subscription (KAFKA-20570)",
        "named with the evidence, ended only where the operator allows it",
    ),
    "metadata": Kind(
        "Topics vanish, appear and grow between Bellwether's JoinGroup and its SyncGroup",
        "one read per plan, then a follow-up: everything that exists gets its owner",
    ),
    "size": Kind(
        "A group record too large for the broker",
        "refused before it is sent, and a member leads; no member gets an error",
    ),
    "twins": Kind(
        "Two sidecars",
        "under one id the newer fences the older, with exit code 3; under two one leads and the other watches",
    ),
    "follower": Kind(
        "Bellwether is not the leader, or loses the lead", "Bellwether gets no partitions and does not stay"
    ),
    "topology": Kind("A wrong topology file", "not used, and reported; Java leads the application"),
    "version": Kind(
        "Versions that Bellwether does not know",
        "read as far as they are known, answered in the highest that both know",
    ),
    "rights": Kind(
        "Rights are missing", "named at the start with exit code 2, or the one feature is left out; members go on"
    ),
    "login": Kind(
        "TLS or SASL fails, certificates and logins expire",
        "refused at the start in one sentence, exit code 2;"
        " while Bellwether leads, an ordinary reconnect, or a member leads",
    ),
    "observers": Kind("The events topic is missing, full or stuck, and scrapes never end", "no plan waits for it"),
    "weights": Kind("Absurd weights", "clamped or left out, within the hard rules"),
    "disk": Kind("No free byte, a file system that is read-only, no home directory", "it runs"),
}


@dataclass(frozen=True, slots=True)
class Row:
    """What a fault cost. `took_s`: from the fault, or from the next consumer's call to join where the group is at rest,
    until every partition has one owner, unless `outcome` says until what."""

    kind: str
    fault: str
    took_s: float
    promised_s: float
    outcome: str
    broken: tuple[str, ...]
    load: float

    @property
    def passed(self) -> bool:
        return not self.broken and self.took_s <= self.promised_s


def line(row: Row) -> str:
    took = f"{row.took_s:6.2f} s of {row.promised_s:5.1f} s"
    broken = f" BROKEN: {'; '.join(row.broken)}" if row.broken else ""
    return f"{'kept' if row.passed else 'BROKEN':<6} {took}  {row.fault}: {row.outcome}{broken}"
