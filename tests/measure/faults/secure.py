"""A broker that speaks TLS only, reached through a proxy that can cut connections, groups of consumers on it, and
certificates that are good for as long as a row wants.
"""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.interop.support.brokers import LOOPBACK, Node
from tests.interop.support.members import Flock, Member, double_ownership, partitions_of, wait_settled
from tests.interop.support.proxy import Proxy
from tests.interop.support.scenes.kill_points import LIMIT_S, Group, plain_rebalance
from tests.interop.support.tls import PASSWORD, Authority, TlsCluster, keytool, tls_cluster_of
from tests.measure.faults.scene import Promises

SECRET = "a-word-for-tests"  # noqa: S105 - of a broker that lives as long as a run
PARTITIONS = 12
DAY_S = 86_400


class SecureCluster(TlsCluster):
    """MUTUAL and LOGIN are reached through a proxy, which can cut connections."""

    proxy: Proxy | None = None

    def _configuration(self, node: Node) -> dict[str, str]:
        config = TlsCluster._configuration(self, node)
        ports = [self._ports[name].port for name in ("MUTUAL", "LOGIN")]
        if self.proxy is None:
            self.proxy = Proxy(ports, frames=False)
        for port, outer in zip(ports, self.proxy.ports, strict=True):
            advertised = config["advertised.listeners"]
            config["advertised.listeners"] = advertised.replace(f"{LOOPBACK}:{port}", f"{LOOPBACK}:{outer}")
        return config

    def listener(self, name: str) -> dict[str, str]:
        assert self.proxy is not None
        port = self.proxy.ports[("MUTUAL", "LOGIN").index(name)]
        return {**TlsCluster.listener(self, name), "bootstrap.servers": f"{LOOPBACK}:{port}"}

    def cut(self) -> None:
        assert self.proxy is not None
        self.proxy.cut()


class Secure(Group):
    """A group of consumers that reach the broker by TLS, with a topic of its own."""

    def start(self) -> None:
        self.partitions, self.message = PARTITIONS, list[str]()
        self.cluster.create_topic(self.name, PARTITIONS)
        super().start()

    def member(self, *, own_process: bool = False) -> Member:
        properties = self.cluster.client_config("", "")
        more = {f"property.{name}": value for name, value in properties.items()}
        more["property.heartbeat.interval.ms"] = "500"  # as often as those of other rows, or rounds begin late
        return self.flock.member(
            "confluent", self.name, [self.name], ["range"], more=more, session_ms=30_000, own_process=own_process
        )

    def settle(self, quiet_s: float = 0.3) -> None:
        wanted = partitions_of({self.name: self.partitions})
        wait_settled(self.members, wanted, limit_s=LIMIT_S, quiet_s=quiet_s)

    def owned(self) -> bool:
        held = [tp for member in self.members for tp in member.owned()]
        return len(held) == self.partitions == len(set(held)) and all(member.owned() for member in self.members)

    def trouble(self) -> tuple[str, ...]:
        return (*(error for member in self.members for error in member.errors), *double_ownership(self.members))


@dataclass(frozen=True, slots=True)
class LoginScene(Promises):
    """A broker that speaks TLS only. `folder` is for what a row makes."""

    cluster: SecureCluster
    flock: Flock
    folder: Path
    authority: Path
    ordinary_s: float

    def scram(self, user: str) -> dict[str, str]:
        own = {"sasl.mechanism": "SCRAM-SHA-256", "sasl.username": user, "sasl.password": SECRET}
        return {**self.cluster.listener("LOGIN"), **own}


@contextmanager
def testbed() -> Iterator[LoginScene]:
    with tempfile.TemporaryDirectory(prefix="bellwether-tls-") as directory:
        folder = Path(directory)
        authority = certificate_authority(folder)
        broker = Authority.make(folder, "broker")
        trusted = Authority(authority, folder / "ca.pem")
        cluster = tls_cluster_of(SecureCluster, folder, broker, trusted)
        try:
            with cluster, Flock(cluster.bootstrap) as flock:
                ordinary_s = max(_ordinary(cluster, flock, f"alone-{i}") for i in range(2))
                yield LoginScene(cluster, flock, folder, authority, ordinary_s)
        finally:
            if cluster.proxy is not None:
                cluster.proxy.__exit__(None, None, None)


def _ordinary(cluster: SecureCluster, flock: Flock, name: str) -> float:
    return plain_rebalance(cluster, flock, name, kind=Secure)


def certificate_authority(folder: Path) -> Path:
    """A key store that signs; its certificate is ca.pem."""
    key_store = folder / "ca.p12"
    store = ("-keystore", str(key_store), "-storepass", PASSWORD, "-storetype", "PKCS12", "-alias", "ca")
    keytool("-genkeypair", *store, "-keyalg", "RSA", "-dname", "CN=ca", "-ext", "bc:c")
    keytool("-exportcert", *store, "-rfc", "-file", str(folder / "ca.pem"))
    return key_store


def mutual(here: LoginScene, name: str, life_s: int) -> dict[str, str]:
    """A login by a certificate that is good for so many seconds from now on."""
    paths = {kind: here.folder / f"{name}.{kind}" for kind in ("p12", "csr", "pem", "key")}
    store = ("-keystore", str(paths["p12"]), "-storepass", PASSWORD, "-storetype", "PKCS12", "-alias", "own")
    keytool("-genkeypair", *store, "-keyalg", "RSA", "-dname", f"CN={name}")
    keytool("-certreq", *store, "-file", str(paths["csr"]))
    secrets = ("-passin", f"pass:{PASSWORD}", "-nodes")
    key = ("openssl", "pkcs12", "-in", str(paths["p12"]), "-nocerts", "-out", str(paths["key"]), *secrets)
    subprocess.run(key, check=True, capture_output=True, timeout=60)
    sign(here.authority, paths["pem"], paths["csr"], life_s)
    own = {"ssl.certificate.location": str(paths["pem"]), "ssl.key.location": str(paths["key"])}
    return {**here.cluster.listener("MUTUAL"), **own}


def sign(authority: Path, certificate: Path, request: Path, life_s: int) -> None:
    store = ("-keystore", str(authority), "-storepass", PASSWORD, "-storetype", "PKCS12", "-alias", "ca")
    since = ("-startdate", f"-{DAY_S - life_s}S", "-validity", "1")
    fresh = certificate.with_suffix(".new")
    keytool("-gencert", *store, "-infile", str(request), "-outfile", str(fresh), "-rfc", *since)
    fresh.replace(certificate)
