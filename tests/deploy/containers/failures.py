"""What each failure in the composition costs: a row for each, and in the end the application's counts, exactly.

A row is healthy again when the service runs, and both groups are stable with every member back and have committed
everything that was in their topics when the failure was over. That is asked of the brokers, not of Bellwether.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.deploy.containers.composition import PROJECT, Composition
from tests.deploy.containers.engine import EngineError
from tests.interop.support.ports import PortLease

NETWORK = f"{PROJECT}_default"
PROBE = f"{PROJECT}-probe"
MEMBERS = {"orders-view": 4, "counts": 6}
INSTANCES = ("counts-1", "counts-2", "counts-3")
MEMORY = Path("/sys/fs/cgroup/memory/libpod_parent")
HOLD_S = 20.0  # longer than Bellwether's session timeout, shorter than a consumer's
BOUND_S = 90.0  # within which everything is well again
LIMIT_S = 180.0
STEP_S = 0.5
ROOM = 32 << 20


@dataclass(frozen=True, slots=True)
class Row:
    """`healthy_s` and `leads_s` count from the end of the failure; None is "not within the limit"."""

    what: str
    service: str
    healthy_s: float | None
    leads_s: float | None

    @property
    def passed(self) -> bool:
        return self.healthy_s is not None and self.healthy_s <= BOUND_S and self.leads_s is not None

    def line(self) -> str:
        took = ["not" if value is None else f"{value:.1f} s" for value in (self.healthy_s, self.leads_s)]
        return f"| {self.what} | {self.service} | {took[0]} | {took[1]} |"


HEAD = "| failure | of | healthy after | Bellwether leads both after |\n|---|---|---|---|"


@dataclass(frozen=True, slots=True)
class Failure:
    what: str
    service: str
    inject: Callable[[Composition, str], None]


@dataclass(slots=True)
class Watch:
    """Asks the probe. `trouble`: why it had no answer when it was asked last, "" where it could."""

    port: int
    trouble: str = ""

    def ask(self, path: str, limit_s: float = 30.0) -> Any:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=limit_s) as answer:
            return json.loads(answer.read())

    def groups(self) -> Mapping[str, Any]:
        """Empty while the brokers do not answer."""
        try:
            answer: Mapping[str, Any] = self.ask("/state")
        except urllib.error.HTTPError as error:
            self.trouble = error.read().decode()
            return {}
        except (OSError, ValueError) as error:
            self.trouble = str(error)
            return {}
        self.trouble = ""
        return answer


@contextlib.contextmanager
def watched(made: Composition) -> Iterator[Watch]:
    """With the probe in the composition's network."""
    lease = PortLease()
    here = Path(__file__).parent / "probe.py"
    made.engine.run(
        *("run", "--detach", "--name", PROBE, "--network", NETWORK, "--publish", f"127.0.0.1:{lease.port}:8080"),
        "--restart=always",  # librdkafka's admin client may abort when the broker that it asks dies
        *("--volume", f"{here}:/app/probe.py:ro", "--entrypoint", "python3"),
        *(f"docker.io/library/{PROJECT}-load", "/app/probe.py"),
    )
    try:
        yield Watch(lease.port)
    finally:
        made.engine.run("rm", "--force", "--time", "0", PROBE)
        lease.release()


# ---- what is done to a service ----


def kill(made: Composition, container: str) -> None:
    """As the kernel would: the engine sees it die and starts it again."""
    os.kill(made.engine.state(container)["Pid"], signal.SIGKILL)


def pause(made: Composition, container: str) -> None:
    made.engine.run("pause", container)
    time.sleep(HOLD_S)
    made.engine.run("unpause", container)


def stop(made: Composition, container: str) -> None:
    made.engine.run("stop", "--time", "20", container)
    time.sleep(HOLD_S)
    made.engine.run("start", container)


def exhaust(made: Composition, container: str) -> None:
    """Something else in its memory limit takes what is left, and the kernel kills the service."""
    (description,) = made.engine.ask("inspect", container)
    group = MEMORY / f"libpod-{description['Id']}"
    pid = description["State"]["Pid"]
    Path(f"/proc/{pid}/oom_score_adj").write_text("1000")
    used = int((group / "memory.usage_in_bytes").read_text())
    (group / "memory.limit_in_bytes").write_text(str(used + ROOM))
    takes = f"open('{group}/cgroup.procs', 'w').write(str(__import__('os').getpid())); x = b'x' * {used + 4 * ROOM}"
    subprocess.run([sys.executable, "-c", takes], check=False, capture_output=True, timeout=60)
    with contextlib.suppress(OSError):  # it is gone with the container, which starts again without a limit
        (group / "memory.limit_in_bytes").write_text("-1")


def cut_off(made: Composition, container: str) -> None:
    """Without a network for a while."""
    alias = container.removeprefix(f"{PROJECT}-").removesuffix("-1")
    made.engine.run("network", "disconnect", NETWORK, container)
    time.sleep(HOLD_S)
    made.engine.run("network", "connect", "--alias", alias, NETWORK, container)


def update(made: Composition, container: str) -> None:
    """Another image under the name that the composition uses, and the service made anew from it."""
    name = f"docker.io/library/{container.removesuffix('-1')}"
    made.engine.run("build", "--tag", name, "-", standard_input=f"FROM {name}\nLABEL generation=next\n", limit_s=300)
    service = container.removeprefix(f"{PROJECT}-").removesuffix("-1")
    made.run("up", "--detach", "--no-build", "--no-deps", service)


# One container of each service has each of these, where there are several in turn.
KINDS = {"killed": kill, "out of memory": exhaust, "stopped for 20 s": stop, "paused for 20 s": pause}
SERVICES = (
    ("bellwether",),
    ("kafka-1", "kafka-2", "kafka-3"),
    INSTANCES,
    ("orders-python-1", "orders-python-2"),
    ("orders-java-1", "orders-java-2"),
    ("load",),
    ("prometheus",),
)
FAILURES = (
    *(
        Failure(what, service[turn % len(service)], inject)
        for turn, (what, inject) in enumerate(KINDS.items())
        for service in SERVICES
    ),
    # A new process, as after `stopped`, between failures after which it has to take over: three times an hour at most.
    Failure("updated to another image", "bellwether", update),
    *(Failure("without network for 20 s", service, cut_off) for service in ("bellwether", "kafka-3", "counts-2")),
)


# ---- a row ----


def row(made: Composition, watch: Watch, failure: Failure) -> Row:
    """Injects it and waits until all is well."""
    failure.inject(made, made.container(failure.service))
    over = time.monotonic()
    ends: Mapping[str, Any] = {}
    healthy_s = leads_s = None
    while time.monotonic() - over < LIMIT_S and (healthy_s is None or leads_s is None):
        groups = watch.groups()
        if groups and not ends:
            ends = {group: reported["ends"] for group, reported in groups.items()}
        if healthy_s is None and groups and healthy(groups, ends) and runs(made, failure.service):
            healthy_s = time.monotonic() - over
        if leads_s is None and groups and leads(made, groups):
            leads_s = time.monotonic() - over
        time.sleep(STEP_S)
    if healthy_s is None:
        missing = "" if runs(made, failure.service) else f"{failure.service} does not run; "
        sys.stdout.write(f"not healthy: {missing}{watch.trouble or unhealthy(groups, ends)}\n")
    return Row(failure.what, failure.service, healthy_s, leads_s)


def runs(made: Composition, service: str) -> bool:
    return bool(made.engine.state(made.container(service))["Status"] == "running")


def healthy(groups: Mapping[str, Any], ends: Mapping[str, Any]) -> bool:
    """Stable, complete, and what was there has been consumed."""
    return all(
        reported["state"] == "STABLE"
        and len(reported["members"]) == MEMBERS[group]
        and all(reported["committed"].get(partition, -1) >= end for partition, end in ends[group].items())
        for group, reported in groups.items()
    )


def unhealthy(groups: Mapping[str, Any], ends: Mapping[str, Any]) -> str:
    """What is missing."""
    reasons = []
    for group, reported in groups.items():
        left = {
            p: end - reported["committed"].get(p, 0)
            for p, end in ends[group].items()
            if reported["committed"].get(p, -1) < end
        }
        reasons.append(
            f"{group} {reported['state']}, {len(reported['members'])} of {MEMBERS[group]} members, not consumed: {left}"
        )
    return "; ".join(reasons)


def leads(made: Composition, groups: Mapping[str, Any]) -> bool:
    """It says so, and the brokers know it as a member. It is asked at its own address: podman forgets the ports of a
    container that was without a network."""
    address = made.engine.address(made.container("bellwether"), NETWORK)
    try:
        with urllib.request.urlopen(f"http://{address}:9790/metrics", timeout=5) as answer:
            reported = answer.read().decode()
    except OSError:
        return False
    return all(groups[g]["own"] and f'bellwether_group_leading{{group="{g}"}} 1.0' in reported for g in MEMBERS)


# ---- the counts ----

COUNTED = ("keys", "seen", "distinct", "missing", "digest", "late")


def counted(made: Composition) -> dict[str, int]:
    """Sums over the stores of all instances."""
    sums = [0] * len(COUNTED)
    for service in INSTANCES:
        for partition in dumped(made, made.container(service))["counts"].values():
            sums = [mine + theirs for mine, theirs in zip(sums, partition, strict=True)]
    return dict(zip(COUNTED, sums, strict=True))


def dumped(made: Composition, container: str) -> dict[str, Any]:
    """What one instance holds. It ends with the line that asks, so this is the last thing asked of it."""
    command = ["podman", "attach", "--sig-proxy=false", container]
    with subprocess.Popen(
        command, env=made.engine.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("dump\n")
        process.stdin.flush()
        for line in process.stdout:
            if '"dump"' in line:
                process.kill()
                document: dict[str, Any] = json.loads(line)
                return document
    raise EngineError(f"{container} did not say what it holds")


def exact(made: Composition, watch: Watch) -> list[str]:
    """What is wrong with the counts once nothing more comes; nothing, if all is well."""
    made.engine.run("stop", "--time", "10", made.container("load"))
    deadline = time.monotonic() + LIMIT_S
    while time.monotonic() < deadline:
        groups = watch.groups()
        if groups and healthy(groups, {group: reported["ends"] for group, reported in groups.items()}):
            break
        time.sleep(STEP_S)
    time.sleep(5)  # what has been read has been repartitioned and counted
    expected, written_late, counts = watch.ask("/tally", 300), watch.ask("/late", 300), counted(made)
    sys.stdout.write(f"records {expected}\ncounted {counts}\nwritten late {written_late}\n")
    return differences(expected, counts, written_late)


def differences(expected: Mapping[str, int], counts: Mapping[str, int], written_late: int) -> list[str]:
    """At least once, records may be counted twice, and then after later ones. None may be lost."""
    wrong = [name for name in ("keys", "distinct", "missing", "digest") if expected[name] != counts[name]]
    if counts["seen"] < expected["seen"]:
        wrong.append("records were lost")
    if written_late:
        wrong.append("counts were written late")
    return wrong


def prove_failures(made: Composition) -> int:
    """Prints the table; 0 if every row is within the bound and the counts are exact."""
    rows = []
    with watched(made) as watch:
        sys.stdout.write(f"load average {os.getloadavg()[0]:.1f}\n{HEAD}\n")
        for failure in FAILURES:
            try:
                rows.append(row(made, watch, failure))
            except (EngineError, OSError) as error:
                sys.stdout.write(f"{failure.what} of {failure.service}: {error}\n")
                rows.append(Row(failure.what, failure.service, None, None))
            sys.stdout.write(rows[-1].line() + "\n")
            sys.stdout.flush()
        wrong = exact(made, watch)
    failed = [each for each in rows if not each.passed]
    sys.stdout.write(f"{len(rows) - len(failed)} of {len(rows)} within {BOUND_S:.0f} s; counts: {wrong or 'exact'}\n")
    sys.stdout.write(f"load average {os.getloadavg()[0]:.1f}\n")
    return 1 if failed or wrong else 0
