"""deploy/no-pause/app.Dockerfile, guard.yaml and prestop.yaml: built, and played with the composition's Streams
application under a Bellwether that leads it.

podman runs neither a start-up probe nor a hook, so both are run from outside, as a kubelet does.
"""

import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.deploy.containers.composition import PROJECT, Composition
from tests.deploy.containers.engine import Engine, EngineError
from tests.deploy.containers.groups import BOOTSTRAP, owners
from tests.deploy.containers.play import COMMON, IMAGE, one_pod, played, played_manifests, shown, waited
from tests.paths import ROOT

NO_PAUSE = ROOT / "deploy" / "no-pause"
COMPOSE = ROOT / "deploy" / "compose"
APPLICATION = f"docker.io/library/{PROJECT}-counts-1"
GUARDED = f"docker.io/library/{PROJECT}-counts-guarded"
# As app.Dockerfile names what it is made of.
NAMED = {"registry.example/wordcount:1": APPLICATION, "localhost/bellwether:0.3.0": f"{IMAGE}:latest"}
GROUP = "counts"
INSTANCES = 3
THREADS = 2
STOP_S = 180  # terminationGracePeriodSeconds of the manifests, or less
SESSION_S = 45.0
CLOSED = 0  # the exit code of the application after SIGTERM, and so of its guard
REMOVED = re.compile(rf"Removed {THREADS} of its {THREADS} members, \d+ ms after [^.]+\.")
EMPTY = re.compile(r"It is empty after [0-9.]+ s\.")


@dataclass(frozen=True, slots=True)
class Instance:
    """One that is played: its container, and the commands of its manifest that a kubelet would run in it."""

    engine: Engine
    container: str
    name: str
    probe: tuple[str, ...]
    hook: tuple[str, ...] = ()

    def ready(self) -> bool:
        """Whether the start-up probe says so."""
        with contextlib.suppress(EngineError):
            self.engine.run("exec", self.container, *self.probe)
            return True
        return False

    def application_pid(self) -> int:
        """Of the guard's child."""
        guard = int(self.engine.state(self.container)["Pid"])
        (child,) = Path(f"/proc/{guard}/task/{guard}/children").read_text().split()
        return int(child)


def program() -> str:
    """The script of the composition's application, with the state and the client id where the manifests have them. It
    reads from a pipe of its own, because it ends with its standard input and podman opens none."""
    script = (COMPOSE / "streams.sh").read_text()
    own = script.replace("state.dir=/home/app/state", 'state.dir=/state "client.id=$POD_NAME"')
    assert own != script
    return f"test -p /tmp/input || mkfifo /tmp/input\nexec 3<>/tmp/input 0<&3\n{own}"


def manifest(file: Path, name: str) -> tuple[dict[str, Any], tuple[str, ...], tuple[str, ...]]:
    """The Deployment, the start-up probe, and the hook before a stop."""
    (stateful,) = yaml.safe_load_all(file.read_text())
    pod = stateful["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    example = stateful["metadata"]["name"]

    def named(words: list[str]) -> list[str]:
        return [re.sub(rf"\b{example}\b", GROUP, word) for word in words]

    probe = named(container.pop("startupProbe")["exec"]["command"])
    hook = named(container.pop("lifecycle", {"preStop": {"exec": {"command": []}}})["preStop"]["exec"]["command"])
    run = ["sh", "-c", program()]
    if "args" in container:  # behind the guard
        container |= {"command": named(container["command"]), "args": run}
    else:
        container |= {"command": run}
    container |= {"name": "app", "image": GUARDED}
    container["volumeMounts"] = [{"name": f"{name}-state", "mountPath": "/state"}]
    pod["volumes"] = [{"name": f"{name}-state", "emptyDir": {}}]  # for podman the name of a volume of all pods
    reported = {"POD_NAME": name, "BELLWETHER_KAFKA_BOOTSTRAP_SERVERS": BOOTSTRAP}
    return one_pod(name, pod, reported), tuple(probe), tuple(hook)


def bellwether() -> str:
    """The composition's configuration for the application alone."""
    text = (COMPOSE / "bellwether.toml").read_text().replace("/etc/bellwether/counts", "/etc/bellwether/config/counts")
    return text.partition("[events]")[0] + text[text.index('[[groups]]\nname = "counts"') :]


@contextlib.contextmanager
def instances(made: Composition) -> Iterator[list[Instance]]:
    """Two behind the guard and one with a hook, led by Bellwether."""
    files = [NO_PAUSE / "guard.yaml"] * (INSTANCES - 1) + [NO_PAUSE / "prestop.yaml"]
    with contextlib.ExitStack() as stack:
        stack.enter_context(played(made, "leader", {**COMMON, "config": bellwether()}))
        started = []
        for number, file in enumerate(files):
            name = f"{GROUP}-{number}"
            deployment, probe, hook = manifest(file, name)
            stack.callback(_forget_state, made, name)
            (pod,) = stack.enter_context(played_manifests(made, name, [deployment]))
            started.append(Instance(made.engine, pod.beside("app"), name, probe, hook))
        yield started


def _forget_state(made: Composition, name: str) -> None:
    with contextlib.suppress(EngineError):
        made.engine.run("volume", "rm", f"{name}-state")


def no_pause(made: Composition) -> tuple[str, bool]:
    """Each instance is restarted as Kubernetes restarts a pod; then one of them is killed."""
    for name, image in NAMED.items():
        made.engine.run("tag", image, name)
    made.engine.build(GUARDED, NO_PAUSE / "app.Dockerfile", NO_PAUSE)
    with instances(made) as pair:
        joined_s = waited(lambda: len(owners(made, GROUP)) == INSTANCES * THREADS)
        ready = [waited(each.ready) for each in pair]
        first = f"app.Dockerfile, guard.yaml, prestop.yaml: all have tasks after {shown(joined_s)}"
        outcomes = [(first, None not in (joined_s, *ready))]
        outcomes += [stopped_by_hook(made, each) if each.hook else stopped_by_guard(made, each) for each in pair]
        outcomes.append(killed(made, pair[0]))
        kept = all(well for _, well in outcomes)
        if not kept:
            sys.stdout.write("".join(f"{each.name}: {each.engine.logs(each.container)}\n" for each in pair))
    return "\n".join(line for line, _ in outcomes), kept


def stopped_by_hook(made: Composition, instance: Instance) -> tuple[str, bool]:
    """It has nothing left when its hook ends, which comes before SIGTERM."""
    began = time.monotonic()
    made.engine.run("exec", instance.container, *instance.hook, limit_s=STOP_S)
    empty = not any(member.startswith(f"{instance.name}-") for member in owners(made, GROUP))
    line, kept = restarted(made, instance, began)
    return f"{line} {'Empty' if empty else 'Not empty'} after its preStop hook.", kept and empty


def stopped_by_guard(made: Composition, instance: Instance) -> tuple[str, bool]:
    """The guard empties it before it passes SIGTERM on, and removes its members when it has ended."""
    before = len(made.engine.logs(instance.container))
    line, kept = restarted(made, instance, time.monotonic())
    message = made.engine.logs(instance.container)[before:]
    times = [match[0] for match in (EMPTY.search(message), REMOVED.search(message)) if match]
    return f"{line} {' '.join(times) or 'The guard has said nothing.'}", kept and len(times) == 2


def restarted(made: Composition, instance: Instance, began: float) -> tuple[str, bool]:
    """SIGTERM, and a start; its probe succeeds when it is back, for which no session is waited for."""
    made.engine.run("stop", "--time", str(STOP_S), instance.container, limit_s=STOP_S + 30)
    stopped_s, code = time.monotonic() - began, int(made.engine.state(instance.container)["ExitCode"])
    made.engine.run("start", instance.container)
    ready_s = waited(instance.ready)
    line = (
        f"  {instance.name} restarted: stopped after {stopped_s:.1f} s, exit code {code}, ready {shown(ready_s)} later."
    )
    return line, ready_s is not None and ready_s < SESSION_S and code == CLOSED


def killed(made: Composition, instance: Instance) -> tuple[str, bool]:
    """The guard's child. The guard ends with it, and podman starts the container again."""
    before, had = len(made.engine.logs(instance.container)), owners(made, GROUP)
    os.kill(instance.application_pid(), signal.SIGKILL)
    owned_s = waited(lambda: owned_by_others(had, owners(made, GROUP)))
    removed = REMOVED.search(made.engine.logs(instance.container)[before:])
    kept = removed is not None and owned_s is not None and owned_s < SESSION_S / 2
    line = f"  {instance.name} killed: all owned again after {shown(owned_s)} with a session of {SESSION_S:.0f} s."
    return f"{line} {removed[0] if removed else 'Nothing removed.'}", kept


def owned_by_others(before: Mapping[str, int], now: Mapping[str, int]) -> bool:
    """Whether as much is owned as before, and not by all who had it."""
    return sum(now.values()) == sum(before.values()) and not before.keys() <= now.keys()
