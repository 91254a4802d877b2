"""`make hanging-calls`: two groups led on three real brokers, while one call outside of them hangs for twelve seconds.
The longest time between two heartbeats of each group, and rebalances. Needs a JDK, Maven and a C compiler.
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.interop.support.bellwether import Bellwether
from tests.interop.support.members import partitions_of, wait_settled
from tests.interop.support.rebalances import rebalances
from tests.lab.hanging_calls.stage import NAMES, PARTITIONS, TOKEN_LIFE_S, TOPIC, Stage, stage

HANGS_S = 12.0
AFTERWARDS_S = 5.0
HEARTBEAT_S = 0.5
MORE_S = 0.2  # than the interval: the goal
LIMIT_S = 90.0
CONTROL = "hanging-control"
OPTIONS = {
    "session_timeout_ms": 10_000,
    "heartbeat_interval_ms": int(HEARTBEAT_S * 1000),
    "decision_deadline_ms": 2_000,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """`hangs` are names and files, `silent` is the server of everything else. Connections to the nodes `cut` are reset
    when it begins, which is `after_s` the start, or before the first plan where that is 0. `touches`: the certificate
    file changes then."""

    reported: str
    login: str = "NAMED"
    hangs: Callable[[Stage], tuple[str, ...]] = lambda _: ()
    silent: bool = False
    cut: Callable[[Stage], tuple[int, ...]] = lambda _: ()
    after_s: float = 5.0
    settings: Callable[[Stage], dict[str, Any]] = lambda _: {}
    kafka: Callable[[Stage], dict[str, str]] = lambda _: {}
    environment: Callable[[Stage], dict[str, str]] = lambda _: {}
    touches: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """`gaps_s`: the longest of each group; `waited`: calls that the fault has kept waiting."""

    reported: str
    gaps_s: tuple[float, ...]
    rebalances: int
    waited: int
    broken: tuple[str, ...] = field(default=())

    @property
    def kept(self) -> bool:
        return not self.broken and not self.rebalances and max(self.gaps_s) <= HEARTBEAT_S + MORE_S

    def __str__(self) -> str:
        gaps = " and ".join(f"{gap:.2f} s" for gap in self.gaps_s)
        return (
            f"{'kept' if self.kept else 'MISSED':<6} {self.reported}: {gaps}, {self.rebalances} rebalances,"
            f" {self.waited} calls waited {'; '.join(self.broken)}"
        )


def second(on: Stage) -> tuple[int, ...]:
    return on.coordinators[1:]


def every(_: Stage) -> tuple[int, ...]:
    return (1, 2, 3)


def _names(nodes: Callable[[Stage], tuple[int, ...]]) -> Callable[[Stage], tuple[str, ...]]:
    return lambda on: tuple(NAMES[node - 1] for node in nodes(on))


def _oidc(on: Stage) -> dict[str, str]:
    login = {"method": "oidc", "client.id": "bellwether", "client.secret": "for-tests"}
    return {f"sasl.oauthbearer.{name}": value for name, value in login.items()} | {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": f"{on.outside.address}/token",
    }


def _sts(on: Stage) -> dict[str, str]:
    identity = on.folder / "identity"
    identity.write_text("a token of the platform")
    return {
        "UNSIGNED_LIFE_S": str(TOKEN_LIFE_S),
        "AWS_ROLE_ARN": "arn:aws:iam::1:role/bellwether",
        "AWS_WEB_IDENTITY_TOKEN_FILE": str(identity),
        "AWS_ENDPOINT_URL_STS": on.outside.address,
        "AWS_DEFAULT_REGION": "eu-central-1",
    }


def _events(on: Stage) -> dict[str, Any]:
    return {"events": {"topic": "hanging-events", "registry_url": on.outside.address}}


RENEWAL_S = 0.8 * TOKEN_LIFE_S - 2.0
FAULTS = {
    "cut": Fault("nothing hangs; the connections to one coordinator node are cut", cut=second),
    "name": Fault("the name of one coordinator node, whose connections are cut", hangs=_names(second), cut=second),
    "names": Fault("the names of all brokers, and all connections are cut", hangs=_names(every), cut=every),
    "oidc": Fault(
        "the token endpoint (OIDC), when a token is renewed", "LOGIN", silent=True, after_s=RENEWAL_S, kafka=_oidc
    ),
    "sts": Fault(
        "AWS STS, when credentials are renewed", "LOGIN", silent=True, after_s=RENEWAL_S, environment=_sts,
        kafka=lambda _: {"sasl.mechanism": "AWS_MSK_IAM"},
    ),
    "registry": Fault("the schema registry, from the first event on", silent=True, after_s=0.0, settings=_events),
    "certificate": Fault(
        "a certificate file on a dead file system", "LOGIN", kafka=_oidc, touches=True,
        hangs=lambda on: (str(on.certificate),),
    ),
    "certificate-cut": Fault(
        "the same, and the connections to one coordinator node are cut", "LOGIN", kafka=_oidc, touches=True, cut=second,
        hangs=lambda on: (str(on.certificate),),
    ),
}  # fmt: skip


def measured(on: Stage, fault: Fault) -> Row:
    hanging, heartbeats = on.folder / "hanging", on.folder / "beats"
    seen = Path(f"{hanging}.seen")
    for file in (hanging, heartbeats, seen):
        file.write_text("")
    on.outside.kept_waiting = 0
    environment = {
        "LD_PRELOAD": str(on.library),
        "HANGING": str(hanging),
        "HEARTBEATS": str(heartbeats),
        **fault.environment(on),
    }
    command = ("env", *(f"{name}={value}" for name, value in environment.items()), sys.executable, "-m",
               "tests.lab.hanging_calls.process")  # fmt: skip
    tls = {"security.protocol": "SASL_SSL", "ssl.ca.location": str(on.certificate)} if fault.login == "LOGIN" else {}
    kafka = {"bootstrap.servers": on.cluster.servers(fault.login), **tls, **fault.kafka(on)}
    lead = Bellwether(on.cluster, on.groups, options=OPTIONS, login=kafka, command=command,
                      control_topic=CONTROL, **fault.settings(on))  # fmt: skip
    with ExitStack() as ends:
        began = time.monotonic()
        ends.enter_context(lead)
        if not fault.after_s:
            on.outside.silent.set()
            ends.callback(on.outside.silent.clear)
        members = [on.flock.member("confluent", group, [TOPIC], session_ms=10_000) for group in on.groups]
        for member in members:
            ends.callback(member.stop)
            wait_settled([member], partitions_of({TOPIC: PARTITIONS}), limit_s=LIMIT_S)
        time.sleep(max(2.0, began + fault.after_s - time.monotonic()) if fault.after_s else 0.0)
        before = [rebalances(on.cluster, group)[-1] for group in on.groups]
        since = time.monotonic()
        with _hanging(on, fault, hanging):
            time.sleep(HANGS_S)
        time.sleep(AFTERWARDS_S)
        until = time.monotonic()
        after = [rebalances(on.cluster, group)[-1] for group in on.groups]
        led = zip(on.groups, after, strict=True)
        broken = tuple(f"{group} is led by {r.leader}" for group, r in led if not r.leader.startswith("bellwether"))
        if not lead.running:
            broken += (lead.tail(5),)
        counted = sum(b.generation - a.generation for a, b in zip(before, after, strict=True))
    waited = len(seen.read_text().splitlines()) + on.outside.kept_waiting
    gaps = tuple(_gap(heartbeats.read_text(), group, since, until) for group in on.groups)
    if not waited and (fault.silent or fault.hangs(on)):
        broken += ("the fault never came about",)
    return Row(fault.reported, gaps, counted, waited, broken)


@contextmanager
def _hanging(on: Stage, fault: Fault, file: Path) -> Iterator[None]:
    file.write_text("\n".join(fault.hangs(on)))
    if fault.silent:
        on.outside.silent.set()
    if fault.touches:
        on.certificate.touch()
    on.cluster.cut(fault.cut(on))
    try:
        yield
    finally:
        file.write_text("")
        on.outside.silent.clear()


def _gap(text: str, group: str, since: float, until: float) -> float:
    """The longest time between two heartbeats that brokers have answered, from the last before the fault on."""
    sent = sorted(float(at) for name, at in (line.split() for line in text.splitlines()) if name == group)
    early = [at for at in sent if at < since][-1:]
    during = [at for at in sent if since <= at <= until]
    return max((b - a for a, b in pairwise([*early, *during, until])), default=until - since)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lab.hanging_calls", description=__doc__)
    parser.add_argument("rows", nargs="*", default=list(FAULTS), help=f"of {', '.join(FAULTS)}")
    names, rows = parser.parse_args().rows, []
    with stage() as on:
        for name in names:
            rows.append(measured(on, FAULTS[name]))
            print(rows[-1], flush=True)
    return 0 if all(row.kept for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
