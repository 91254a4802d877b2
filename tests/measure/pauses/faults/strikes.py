"""The faults, and the steps of what happens to an instance at which they strike."""

import os
import signal
from collections.abc import Callable, Iterator

from tests.interop.support.members import wait_until
from tests.interop.support.proxy import Fate
from tests.measure.faults.wire import always
from tests.measure.pauses.faults.scene import LIMIT_S, Scene

Strike = Callable[[Scene, str], None]
Scenario = Callable[[Scene, str], Iterator[str]]


def nothing(scene: Scene, name: str) -> None:
    del scene, name


def guard_killed(scene: Scene, name: str) -> None:
    instance = scene.instance(name)
    assert instance.alive, "the guard had ended before it could be killed"
    os.kill(instance.pid, signal.SIGKILL)


def bellwether_killed(scene: Scene, name: str) -> None:
    del name
    assert scene.lead is not None
    scene.lead.kill()


def node_killed(scene: Scene, name: str) -> None:
    del name
    node = scene.cluster.coordinator_node(scene.group)
    scene.cluster.kill_node(node)
    scene.node = node


def network_cut(scene: Scene, name: str) -> None:
    """Nothing passes between the brokers and Bellwether and the guards; connections stay open."""
    del name
    scene.cluster.proxy.rule = always(Fate.DROP)


STRIKES: dict[str, Strike] = {
    "guard": guard_killed,
    "bellwether": bellwether_killed,
    "node": node_killed,
    "network": network_cut,
}


def stop(scene: Scene, name: str) -> Iterator[str]:
    """SIGTERM to the guard, until its process has ended."""
    rules = scene.rules()
    yield "before"
    scene.terminate(name)
    if scene.setting.guarded:
        scene.until_emptying(name, rules)
        yield "emptying"
        scene.until_closing(name)
        yield "closing"
    scene.until_ended(name)


def restart(scene: Scene, name: str) -> Iterator[str]:
    yield from stop(scene, name)
    yield "away"
    scene.start(name)
    scene.until_joining(name)
    yield "returning"


def scale_in(scene: Scene, name: str) -> Iterator[str]:
    yield from stop(scene, name)
    yield "away"


def crash(scene: Scene, name: str) -> Iterator[str]:
    yield from _lost(scene, lambda: os.kill(scene.jvm[name], signal.SIGKILL))
    scene.until_ended(name, 2 * LIMIT_S)


def failure(scene: Scene, name: str) -> Iterator[str]:
    """In all threads, while the process lives on, until somebody ends it who has seen that."""
    yield from _lost(scene, lambda: scene.instance(name).send("fail-and-stay"))
    wait_until(lambda: scene.others_run(name), LIMIT_S, scene.send)
    os.kill(scene.jvm[name], signal.SIGKILL)
    scene.until_ended(name, 2 * LIMIT_S)


def _lost(scene: Scene, happens: Callable[[], object]) -> Iterator[str]:
    yield "before"
    happens()
    yield "at once"
    scene.until_rebalancing()
    yield "rebalancing"


SCENARIOS: dict[str, Scenario] = {"restart": restart, "scale-in": scale_in, "crash": crash, "failure": failure}
