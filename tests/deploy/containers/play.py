"""Each shape of the chart, rendered by Helm and run by `podman kube play` beside the composition's brokers.

What podman cannot do is done here and said: it fills in no pod address, so the address to listen on is put into the
manifest; its probes need a shell with curl, so the probes of the manifest are asked from outside, as a kubelet asks.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.containers.composition import PROJECT, TOOLS, Composition
from tests.deploy.containers.engine import Engine, EngineError, MissingEngineError
from tests.paths import ROOT

CHART = ROOT / "deploy" / "helm" / "bellwether"
NETWORK = f"{PROJECT}_default"
IMAGE = f"docker.io/library/{PROJECT}-bellwether"
PLAYED = ("ConfigMap", "Deployment")
PORT = 9790
LIMIT_S = 180.0
GRACE_S = 30
FIGHT_S = 60.0
MEBI = 1 << 20
CGROUP = Path("/sys/fs/cgroup/memory")
SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "password"}, "data": {"password": "c2VjcmV0"}}
CONSUMER = (ROOT / "deploy" / "compose" / "consumer.py").read_text()
GROUPS = ("orders-view",)
MEMBERS = ("orders-python-1", "orders-python-2")
LEAD = """[kafka]
"bootstrap.servers" = "kafka-1:9092,kafka-2:9092,kafka-3:9092"
[[groups]]
name = "orders-view"
mode = "lead"
adopt = "take-over"
subscribes = true
evictions_max = 2  # the member in front of the others, too, should it stand there
policy = "rack-first"
"""
STANDBY = f'instance_id = "bellwether"\ncontrol_topic = "bellwether-control"\nstandby = true\n{LEAD}'
STANDBY = STANDBY.replace('mode = "lead"', 'mode = "lead"\nleave_on_stop = false')
ASSIST = LEAD.split("mode", 1)[0] + 'mode = "assist"\n'
APPLICATION = {
    "name": "app",
    "image": IMAGE,
    "command": ["python3", "-c", CONSUMER],
    "env": [
        {"name": "BOOTSTRAP_SERVERS", "value": "kafka-1:9092,kafka-2:9092,kafka-3:9092"},
        {"name": "GROUP", "value": "orders-view"},
        {"name": "TOPICS", "value": "orders"},
    ],
}
Values = Mapping[str, Any]
COMMON: Values = {
    "image": {"repository": IMAGE, "tag": "latest"},
    "secretName": "password",
    "files": {"counts.yaml": (ROOT / "deploy" / "compose" / "counts.yaml").read_text()},
}


def beside(replicas: int) -> Values:
    """Values of a sidecar beside an application of so many pods."""
    pod = {"containers": [APPLICATION]}
    strategy = {"type": "Recreate"} if replicas == 1 else {}
    return {"shape": "sidecar", "application": {"replicas": replicas, "podSpec": pod, "strategy": strategy}}


SHAPES: Mapping[str, Values] = {
    "deployment for many groups": {**COMMON, "config": LEAD},
    "deployment, two with standby": {**COMMON, "config": STANDBY, "replicaCount": 2},
    "beside an application": {**COMMON, **beside(1), "config": LEAD},
    "sidecar, two with standby": {**COMMON, **beside(2), "config": STANDBY},
    "assist only": {**COMMON, "config": ASSIST},
}


@dataclass(frozen=True, slots=True)
class Pod:
    """A container of Bellwether that `podman kube play` made, and where it listens."""

    engine: Engine
    container: str
    address: str

    def beside(self, name: str) -> str:
        """Another container of the same pod."""
        return f"{self.container.removesuffix('-bellwether')}-{name}"

    def get(self, path: str) -> str:
        """Raises OSError."""
        with urllib.request.urlopen(f"http://{self.address}:{PORT}{path}", timeout=3) as answer:
            return str(answer.read().decode())

    def ready(self) -> bool:
        with contextlib.suppress(OSError):
            return self.get("/livez").strip() == self.get("/readyz").strip() == "ok"
        return False

    def leads(self, groups: Sequence[str]) -> bool:
        with contextlib.suppress(OSError):
            reported = self.get("/metrics")
            return all(f'bellwether_group_leading{{group="{group}"}} 1.0' in reported for group in groups)
        return False

    def memory_bytes(self) -> int:
        """Resident, without the files that the kernel keeps."""
        lines = Path(f"/proc/{self.engine.state(self.container)['Pid']}/cgroup").read_text().splitlines()
        group = next(line.split(":", 2)[2] for line in lines if line.split(":", 2)[1] == "memory")
        stat = (CGROUP / group.removeprefix("/") / "memory.stat").read_text().splitlines()
        return int(next(line.split()[1] for line in stat if line.startswith("total_rss ")))


def rendered(name: str, values: Values) -> list[dict[str, Any]]:
    """The chart's manifests that podman plays, and what it needs changed in them."""
    helm = shutil.which("helm", path=TOOLS)
    if helm is None:
        raise MissingEngineError("helm is missing; make check-deploy builds it, with Go")
    command = [helm, "template", name, str(CHART), "--kube-version", "1.31.0", "--values", "-"]
    done = subprocess.run(command, check=True, input=json.dumps(values), capture_output=True, text=True, timeout=120)
    manifests = [m for m in yaml.safe_load_all(done.stdout) if m and m["kind"] in PLAYED]
    for manifest in manifests:
        if manifest["kind"] == "Deployment":
            made_playable(manifest["spec"]["template"]["spec"])
    return [SECRET, *manifests]


def made_playable(pod: dict[str, Any]) -> None:
    """Without what podman cannot do."""
    for container in pod["containers"]:
        container.pop("livenessProbe", None)
        container.pop("readinessProbe", None)
        container.pop("ports", None)  # podman would publish them on every address of the machine
        container["imagePullPolicy"] = "Never"
        for variable in container["env"]:
            variable.pop("valueFrom", None)
            variable["value"] = variable.get("value", "0.0.0.0").replace("$(POD_IP)", "0.0.0.0")  # noqa: S104
    for volume in pod["volumes"]:
        if "secret" in volume:
            volume["secret"]["optional"] = False


def one_pod(name: str, pod: Mapping[str, Any], reported: Mapping[str, str]) -> dict[str, Any]:
    """A Deployment of one pod in the place of a StatefulSet, which podman does not play. Variables that are in
    `reported` have that value, where podman fills in no field of a pod."""
    containers = []
    for container in pod["containers"]:
        variables = [{"name": v["name"], "value": reported.get(v["name"], v.get("value"))} for v in container["env"]]
        containers.append({**container, "env": variables, "imagePullPolicy": "Never"})
    spec = {
        "replicas": 1,
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {**pod, "containers": containers}},
    }
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name}, "spec": spec}


def played(made: Composition, name: str, values: Values) -> contextlib.AbstractContextManager[list[Pod]]:
    """The pods of a release."""
    return played_manifests(made, name, rendered(name, values))


@contextlib.contextmanager
def played_manifests(made: Composition, name: str, manifests: list[dict[str, Any]]) -> Iterator[list[Pod]]:
    """The pods of the Deployment of this name."""
    file = made.engine.home / f"{name}.yaml"
    file.write_text(yaml.safe_dump_all(manifests))
    # What a run that was killed has left behind has the same names.
    made.engine.run("kube", "play", "--replace", "--network", NETWORK, str(file), limit_s=300)
    try:
        yield pods(made, name)
    finally:
        with contextlib.suppress(EngineError):
            made.engine.run("kube", "down", str(file), limit_s=300)
        with contextlib.suppress(EngineError):
            made.engine.run("secret", "rm", "password")


def pods(made: Composition, name: str) -> list[Pod]:
    """Those of a release that run now."""
    running = []
    for pod in made.engine.ask("pod", "ps", "--format=json", "--filter", f"name={name}-pod") or ():
        address = made.engine.address(pod["InfraId"], NETWORK)
        running.append(Pod(made.engine, f"{pod['Name']}-bellwether", address))
    return sorted(running, key=lambda each: each.container)


def waited(condition: Callable[[], bool], limit_s: float = LIMIT_S) -> float | None:
    """Seconds until it holds; None where it does not."""
    began = time.monotonic()
    while time.monotonic() - began < limit_s:
        if condition():
            return time.monotonic() - began
        time.sleep(0.2)
    return None


def shown(seconds: float | None) -> str:
    return "not" if seconds is None else f"{seconds:.1f} s"


# ---- a shape ----


HEAD = (
    "| shape | pods | all ready after | leads after | resident, of 128 MiB requested | killed: leads again after "
    "| SIGTERM: ended after, exit code |\n|---|---|---|---|---|---|---|"
)


def shape(made: Composition, title: str, values: Values) -> tuple[str, bool]:
    """A row of the table, and whether all of it held."""
    groups = () if "assist" in title else GROUPS
    with played(made, "shape", values) as running:
        ready_s = waited(lambda: all(pod.ready() for pod in running))
        leads_s = waited(lambda: leader(running, groups) is not None) if groups else 0.0
        time.sleep(5)
        resident = max(pod.memory_bytes() for pod in running)
        killed_s = killed(made, running, groups) if groups else 0.0
        ended = [terminated(made, pod) for pod in running]
    enough = None not in (ready_s, leads_s, killed_s) and resident < 128 * MEBI
    in_time = all(code == 0 and took_s < GRACE_S for took_s, code in ended)
    took = ", ".join(f"{took_s:.1f} s, {code}" for took_s, code in ended)
    first = f"| {title} | {len(running)} | {shown(ready_s)} | {shown(leads_s) if groups else 'it joins nothing'} "
    rest = f"| {resident / MEBI:.0f} MiB | {shown(killed_s) if groups else '-'} | {took} |"
    return first + rest, enough and in_time


def leader(running: Sequence[Pod], groups: Sequence[str]) -> Pod | None:
    return next((pod for pod in running if pod.leads(groups)), None)


def killed(made: Composition, running: Sequence[Pod], groups: Sequence[str]) -> float | None:
    """kill -9 of who leads; seconds until a process leads that is not the dead one."""
    victim = leader(running, groups)
    if victim is None:
        return None
    before = made.engine.state(victim.container)["Pid"]
    os.kill(before, signal.SIGKILL)

    def again() -> bool:
        now = leader(running, groups)
        return now is not None and made.engine.state(now.container)["Pid"] != before

    return waited(again)


def terminated(made: Composition, pod: Pod) -> tuple[float, int]:
    """SIGTERM with the grace period of the chart: seconds until it ended, and its exit code."""
    began = time.monotonic()
    made.engine.run("stop", "--time", str(GRACE_S), pod.container)
    return time.monotonic() - began, int(made.engine.state(pod.container)["ExitCode"])


# ---- what a release becomes ----


def changed(made: Composition) -> tuple[str, bool]:
    """A changed configuration makes another pod, which reads it and leads."""
    before, after = dict(SHAPES["deployment for many groups"]), dict(SHAPES["deployment for many groups"])
    after["config"] = LEAD.replace("rack-first", "sticky-min-churn")
    sums = [
        m["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
        for values in (before, after)
        for m in rendered("change", values)
        if m["kind"] == "Deployment"
    ]
    with played(made, "change", before) as running:
        led = waited(lambda: leader(running, GROUPS) is not None)
        file = made.engine.home / "change.yaml"
        file.write_text(yaml.safe_dump_all(rendered("change", after)))
        made.engine.run("kube", "play", "--replace", "--network", NETWORK, str(file), limit_s=300)
        (pod,) = pods(made, "change")
        again = waited(lambda: pod.leads(GROUPS))
        show = "print(open('/etc/bellwether/config/bellwether.toml').read())"
        read = made.engine.run("exec", pod.container, "python3", "-c", show)
        fenced = "fenced" in made.engine.logs(pod.container).lower()
    kept = sums[0] != sums[1] and None not in (led, again) and "sticky-min-churn" in read and not fenced
    return (
        f"a changed configuration: led {shown(led)}, another pod led {shown(again)}, never fenced: {not fenced}",
        kept,
    )


def fight(made: Composition) -> tuple[str, bool]:
    """Two releases under one instance id, by mistake: who ends, how often, and what it costs the group."""
    values = {**SHAPES["deployment for many groups"], "config": f'instance_id = "bellwether"\n{LEAD}'}
    with played(made, "first", values) as first:
        waited(lambda: leader(first, GROUPS) is not None)
        with played(made, "second", values) as second:
            both = [*first, *second]
            time.sleep(FIGHT_S)
            restarts = [made.engine.state(pod.container)["RestartCount"] for pod in both]
            ends = [made.engine.logs(pod.container).count("fenced") for pod in both]
    line = f"two releases under one instance id for {FIGHT_S:.0f} s: restarts {restarts}, fenced in the logs {ends}"
    return line, sum(restarts) > 0


CASES: tuple[Callable[[Composition], tuple[str, bool]], ...] = (changed, fight)


def prove_play(made: Composition, more: Sequence[Callable[[Composition], tuple[str, bool]]] = ()) -> int:
    """Prints the table, and a line for each of `more` cases; 0 if all of it held. Of the composition it needs the
    brokers, the topics and two consumers."""
    made.up("topics")
    if waited(lambda: made.engine.state(made.container("topics"))["Status"] == "exited") is None:
        raise EngineError("the topics were not created")
    made.run("up", "--detach", "--no-build", "--no-deps", *MEMBERS)
    failed = 0
    sys.stdout.write(f"load average {os.getloadavg()[0]:.1f}\n{HEAD}\n")
    for title, values in SHAPES.items():
        failed += not reported(lambda title=title, values=values: shape(made, title, values))  # type: ignore[misc]
    for case in (*CASES, *more):
        failed += not reported(lambda case=case: case(made))  # type: ignore[misc]
    return 1 if failed else 0


def reported(case: Callable[[], tuple[str, bool]]) -> bool:
    try:
        line, kept = case()
    except (EngineError, OSError, ValueError) as error:
        line, kept = f"{error}", False
    sys.stdout.write(f"{line}{'' if kept else '  <- not as it should be'}\n")
    sys.stdout.flush()
    return kept
