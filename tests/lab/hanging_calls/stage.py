"""Three brokers whose names can hang, a server of tokens, credentials and schema ids that can fall silent, and two
groups that different brokers coordinate.
"""

import json
import subprocess
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from bellwether_kafka.coordinator.kafka.wire import tokens
from tests.interop.support.brokers import KafkaCluster, Node
from tests.interop.support.members import Flock
from tests.interop.support.ports import LOOPBACK, PortLease
from tests.interop.support.proxy import Proxy
from tests.interop.support.security.tls import PASSWORD, REAUTH_MS, Authority

NODES = 3
NAMES = ("127.1", "127.0.1", "0x7f.1")  # of one address each, and looked up by both client libraries
TOPIC, PARTITIONS = "hanging", 6
TOKEN_LIFE_S = 80
MAP = "CLIENTS:PLAINTEXT,NAMED:PLAINTEXT,LOGIN:SASL_SSL,CONTROLLER:PLAINTEXT"
CREDENTIALS = """<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials>
<AccessKeyId>id</AccessKeyId><SecretAccessKey>key</SecretAccessKey><SessionToken>token</SessionToken>
<Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></AssumeRoleWithWebIdentityResult>
<ResponseMetadata><RequestId>1</RequestId></ResponseMetadata></AssumeRoleWithWebIdentityResponse>"""


class Outside:
    """A token endpoint, STS and a schema registry at one address. While `silent` is set nothing is answered."""

    def __init__(self) -> None:
        self.silent = threading.Event()
        self.kept_waiting = 0
        self._server = ThreadingHTTPServer((LOOPBACK, 0), self._handler())
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://{LOOPBACK}:{self._server.server_port}"

    def close(self) -> None:
        self.silent.clear()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, path: str) -> bytes:
        if path == "/token":
            claims = tokens.UnsecuredClaims("bellwether", TOKEN_LIFE_S)
            token = tokens.unsecured_token(claims, time.time()).value
            return json.dumps({"access_token": token, "expires_in": TOKEN_LIFE_S}).encode()
        return b'{"id": 1}' if path.startswith("/subjects/") else CREDENTIALS.encode()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outside = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                outside.kept_waiting += outside.silent.is_set()
                while outside.silent.is_set():
                    time.sleep(0.05)
                body = outside.answer(urllib.parse.urlsplit(self.path).path)
                with suppress(OSError):  # it has given up
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


class NamedCluster(KafkaCluster):
    """Beside CLIENTS each node listens as NAMED, advertised by a name, and as LOGIN with TLS and tokens. Proxies in
    front of both can cut connections."""

    proxies: dict[str, list[Proxy]]
    inner: dict[str, list[PortLease]]

    def _configuration(self, node: Node) -> dict[str, str]:
        config = super()._configuration(node)
        at = node.node_id - 1
        for listener, host in (("NAMED", NAMES[at]), *((each, LOOPBACK) for each in self.inner if each != "NAMED")):
            config["listeners"] += f",{listener}://{LOOPBACK}:{self.inner[listener][at].port}"
            config["advertised.listeners"] += f",{listener}://{host}:{self.proxies[listener][at].ports[0]}"
        return config

    def servers(self, listener: str) -> str:
        hosts = NAMES if listener == "NAMED" else (LOOPBACK,) * NODES
        return ",".join(f"{h}:{p.ports[0]}" for h, p in zip(hosts, self.proxies[listener], strict=True))

    def cut(self, nodes: tuple[int, ...]) -> None:
        """Resets the connections of Bellwether to these nodes (ids)."""
        for proxies in self.proxies.values():
            for node in nodes:
                proxies[node - 1].cut()


@dataclass(frozen=True, slots=True)
class Stage:
    """`groups` are coordinated by `coordinators`, two nodes. `library` is preloaded into Bellwether."""

    cluster: NamedCluster
    flock: Flock
    outside: Outside
    folder: Path
    library: Path
    certificate: Path
    groups: tuple[str, ...]
    coordinators: tuple[int, ...]


@contextmanager
def stage() -> Iterator[Stage]:
    with tempfile.TemporaryDirectory(prefix="bellwether-hanging-") as directory:
        folder = Path(directory)
        library = folder / "hang.so"
        source = Path(__file__).with_name("hang.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True, timeout=60)
        authority = Authority.make(folder, "broker")
        cluster = NamedCluster(nodes=NODES, heap_mb=256, properties=_properties(authority))
        cluster.inner = {listener: [PortLease() for _ in range(NODES)] for listener in ("NAMED", "LOGIN")}
        cluster.proxies = {
            name: [Proxy([p.port], frames=False) for p in ports] for name, ports in cluster.inner.items()
        }
        outside = Outside()
        try:
            with cluster, Flock(cluster.bootstrap) as flock:
                cluster.create_topic(TOPIC, PARTITIONS, rf=NODES)
                groups, nodes = _apart(cluster)
                yield Stage(cluster, flock, outside, folder, library, authority.certificate, groups, nodes)
        finally:
            outside.close()
            for proxy in (proxy for proxies in cluster.proxies.values() for proxy in proxies):
                proxy.__exit__(None, None, None)


def _apart(cluster: NamedCluster) -> tuple[tuple[str, str], tuple[int, int]]:
    """Two groups with different coordinator nodes."""
    first = ("hanging-0", cluster.coordinator_node("hanging-0"))
    for number in range(1, 100):
        other = f"hanging-{number}"
        if (node := cluster.coordinator_node(other)) != first[1]:
            return (first[0], other), (first[1], node)
    raise AssertionError("one node coordinates everything")


def _properties(authority: Authority) -> dict[str, str]:
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    claim = 'unsecuredLoginStringClaim_sub="broker"'
    return {
        "listener.security.protocol.map": MAP,
        "listener.name.login.sasl.enabled.mechanisms": "OAUTHBEARER",
        "listener.name.login.oauthbearer.sasl.jaas.config": f"{module} required {claim};",
        "connections.max.reauth.ms": str(REAUTH_MS),
        "ssl.keystore.location": str(authority.key_store),
        "ssl.keystore.password": PASSWORD,
        "ssl.keystore.type": "PKCS12",
    }
