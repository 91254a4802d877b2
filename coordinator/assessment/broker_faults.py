"""Faults of brokers that a conversion meets, with the releases that mended them. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from bellwether_kafka.coordinator.observation import Fault, Level

Release = tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFault:
    """A fault of brokers since a release. `mended` is the first release without it in each line of releases that has
    one, ascending; later lines never had it. `level` is that of a broker that certainly has it."""

    ticket: str
    since: Release
    mended: tuple[Release, ...]
    level: Level
    says: str

    def has(self, release: Release) -> bool | None:
        """Returns whether brokers of this release have it; None if that depends on a patch level that is not known."""
        line = release[:2]
        if line < self.since:
            return False
        mended = next((patch for patch in self.mended if patch[:2] == line), None)
        if mended is None:
            return line < self.mended[-1][:2]
        return None if len(release) < len(mended) else release < mended

    @property
    def mended_in(self) -> str:
        return " and ".join(map(dotted, self.mended))


TO_STREAMS = (
    BrokerFault(
        ticket="KAFKA-20254",
        since=(4, 2),
        mended=((4, 2, 1),),
        level=Level.FAIL,
        says="After a classic group has become one of streams, a broker of 4.2.0 may not load the partition of"
        " __consumer_offsets that holds it, so that no group of that partition works; Apache Kafka advises against it",
    ),
)
FROM_CONSUMER = (
    BrokerFault(
        ticket="KAFKA-21176",
        since=(4, 0),
        mended=((4, 3, 3), (4, 4, 1)),
        level=Level.WARN,
        says="When a group becomes classic again, its broker goes on counting it as a subscriber of its topics until it"
        " loads the group's partition of __consumer_offsets again",
    ),
)


def faults_of(release: Release, known: Iterable[BrokerFault]) -> Iterator[Fault]:
    """Yields the faults that brokers of this release have or, where their patch level is not known, may have."""
    for fault in known:
        has = fault.has(release) if release else False
        if has is False:
            continue
        said = f"{fault.says} ({fault.ticket}, mended in {fault.mended_in})."
        if has:
            yield Fault(fault.level, said, f"Upgrade all brokers to {fault.mended_in} or newer first.")
        else:
            unknown = f"{said} Brokers do not show whether they are of {dotted(release)}.0 or of a later patch."
            yield Fault(Level.WARN, unknown, f"See that no broker is older than {fault.mended_in}.")


def dotted(release: Release) -> str:
    return ".".join(map(str, release))
