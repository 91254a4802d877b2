"""What deploy/ ships beside the chart, played: the kustomize base, the guard as a sidecar of an application, and the
other examples of deploy/no-pause (`instances`).

The example's application is a consumer of the brokers' image; everything about the guard is as it is.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.containers.composition import TOOLS, Composition
from tests.deploy.containers.engine import MissingEngineError
from tests.deploy.containers.groups import BOOTSTRAP, BROKERS, owners
from tests.deploy.containers.instances import no_pause
from tests.deploy.containers.play import (
    IMAGE,
    LEAD,
    leader,
    made_playable,
    one_pod,
    played_manifests,
    shown,
    waited,
)
from tests.paths import ROOT

KUSTOMIZE = ROOT / "deploy" / "kustomize"
POD = ROOT / "deploy" / "no-pause" / "sidecar.yaml"
GROUP, POD = "payments", "payments-0"
SESSION_MS = 45_000
PROVEN_S = 15.0  # a member that was there when the guard first looked is proven after ten seconds
LOGGED = "-Dorg.slf4j.simpleLogger.showDateTime=true -Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS"
# A consumer of the brokers' image in place of the example's program; the words around it are the example's.
PROGRAM = (
    f"java -Xmx128m -XX:TieredStopAtLevel=1 {LOGGED} -cp '/opt/kafka/libs/*'"
    " org.apache.kafka.tools.consumer.ConsoleConsumer"
    f" --bootstrap-server {BOOTSTRAP} --topic orders --group {GROUP}"
    f" --consumer-property session.timeout.ms={SESSION_MS} --consumer-property client.id="
)


def kustomized() -> list[dict[str, Any]]:
    """What `kustomize build` makes of the base, with a bellwether.toml for these brokers, as its first lines say."""
    kustomize = shutil.which("kustomize", path=TOOLS)
    if kustomize is None:
        raise MissingEngineError("kustomize is missing; make check-deploy builds it, with Go")
    done = subprocess.run(
        [kustomize, "build", str(KUSTOMIZE / "base")], check=True, capture_output=True, text=True, timeout=120
    )
    manifests = [m for m in yaml.safe_load_all(done.stdout) if m["kind"] in ("ConfigMap", "Deployment")]
    for manifest in manifests:
        if manifest["kind"] == "ConfigMap":
            manifest["data"]["bellwether.toml"] = LEAD
        else:
            pod = manifest["spec"]["template"]["spec"]
            pod["containers"][0]["image"] = f"{IMAGE}:latest"
            made_playable(pod)
    return manifests


def base(made: Composition) -> tuple[str, bool]:
    """The kustomize base leads the group that its bellwether.toml names."""
    with played_manifests(made, "bellwether", kustomized()) as containers:
        ready_s = waited(lambda: all(pod.ready() for pod in containers))
        leads_s = waited(lambda: leader(containers, ("orders-view",)) is not None)
    return f"kustomize base: ready after {shown(ready_s)}, leads after {shown(leads_s)}", None not in (ready_s, leads_s)


def guarded_application() -> dict[str, Any]:
    """deploy/no-pause/sidecar.yaml as one pod."""
    (stateful,) = yaml.safe_load_all(POD.read_text())
    pod = stateful["spec"]["template"]["spec"]
    application, guard = pod["containers"]
    script = application["command"][-1]
    application["image"] = "docker.io/apache/kafka:4.3.0"
    # Kubernetes lets everybody write to an emptyDir; podman gives it to the user of the container that comes first.
    application["securityContext"] = {"runAsUser": guard["securityContext"]["runAsUser"]}
    application["command"] = ["bash", "-c", re.sub(r"/opt/payments --client-id ", PROGRAM, script)]
    guard["image"] = f"{IMAGE}:latest"
    guard["args"] = [word.replace("$(POD_NAME)", POD) for word in guard["args"]]
    return one_pod(GROUP, pod, {"BELLWETHER_KAFKA_BOOTSTRAP_SERVERS": BOOTSTRAP, "POD_NAME": POD})


def guarded(made: Composition) -> tuple[str, bool]:
    """The application is killed and starts again: with its guard it has its partitions long before the session ends."""
    with played_manifests(made, GROUP, [guarded_application()]) as containers:
        (pod,) = containers
        guard, application = pod.beside("guard"), pod.beside(GROUP)
        joined_s = waited(lambda: bool(owners(made, GROUP)))
        time.sleep(PROVEN_S)
        resident = resident_bytes(int(made.engine.state(guard)["Pid"]))
        before = owners(made, GROUP)
        running = made.engine.state(application)
        if running["Status"] != "running":
            return f"the guarded application is {running['Status']}: {made.engine.logs(application)[-500:]}", False
        os.kill(int(running["Pid"]), signal.SIGKILL)
        owned_s = waited(lambda: bool(owners(made, GROUP)) and not owners(made, GROUP).keys() & before.keys())
        removed = re.search(r"Removed 1 of its 1 members, \d+ ms after its end", made.engine.logs(guard))
        kept = None not in (joined_s, owned_s) and removed is not None and (owned_s or 0.0) < SESSION_MS / 1000 / 2
        if not kept:
            sys.stdout.write(message_of_the_group(made, application, guard))
    message = removed[0] if removed is not None else "nothing removed"
    line = f"guard as a sidecar, the application killed: owned again after {shown(owned_s)} with a session of 45 s"
    return f"{line}; guard: {message}; {resident / (1 << 20):.0f} MiB", kept


def message_of_the_group(made: Composition, application: str, guard: str) -> str:
    """What the application, its guard and the brokers have written, with the time in UTC where they write it."""
    message = {name: made.engine.logs(name).splitlines() for name in (application, guard)}
    for broker in BROKERS:
        written = made.engine.logs(made.container(broker)).splitlines()
        message[broker] = [text for text in written if GROUP in text]
    return "".join(f"{name}: {text}\n" for name, texts in message.items() for text in texts)


def resident_bytes(pid: int) -> int:
    hit = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert hit is not None
    return int(hit[1]) * 1024


EXAMPLES = (base, guarded, no_pause)
