"""A broker that speaks TLS only, with certificates made for it by the JDK's keytool: one listener for anybody, one for
clients with a certificate, one for logins by SCRAM or a token.
"""

import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from confluent_kafka.admin import ScramCredentialInfo, ScramMechanism, UserScramCredentialUpsertion

from tests.interop.support.brokers import KafkaCluster, Node
from tests.interop.support.ports import LOOPBACK, PortLease

PASSWORD = "for-tests"  # noqa: S105 - of a key store that lives as long as a test


def keytool(*arguments: str) -> None:
    subprocess.run(["keytool", *arguments], check=True, capture_output=True, timeout=60)


@dataclass(frozen=True, slots=True)
class Authority:
    """A self-signed certificate: what a broker shows, and the file by which clients know it."""

    key_store: Path
    certificate: Path

    @classmethod
    def make(cls, folder: Path, name: str) -> "Authority":
        key_store, certificate = folder / f"{name}.p12", folder / f"{name}.pem"
        store = ("-keystore", str(key_store), "-storepass", PASSWORD, "-alias", name)
        where = f"san=ip:{LOOPBACK},dns:localhost"
        keytool("-genkeypair", *store, "-keyalg", "RSA", "-dname", f"CN={name}", "-ext", where, "-storetype", "PKCS12")
        keytool("-exportcert", *store, "-rfc", "-file", str(certificate))
        return cls(key_store, certificate)

    @classmethod
    def of(cls, folder: Path, name: str) -> "Authority":
        """One that `make` has made."""
        return cls(folder / f"{name}.p12", folder / f"{name}.pem")

    def trusted(self, folder: Path, *others: "Authority") -> Path:
        """A trust store that holds the certificates, for Java."""
        trust = folder / "trust.p12"
        store = ("-keystore", str(trust), "-storepass", PASSWORD, "-storetype", "PKCS12")
        for number, authority in enumerate((self, *others)):
            keytool("-importcert", "-noprompt", *store, "-alias", f"a{number}", "-file", str(authority.certificate))
        return trust

    def private_key(self, folder: Path, password: str) -> Path:
        """The key in a file that only this password opens, as clients other than Java read it."""
        key = folder / "key.pem"
        secrets = ("-passin", f"pass:{PASSWORD}", "-passout", f"pass:{password}")
        subprocess.run(
            ["openssl", "pkcs12", "-in", str(self.key_store), "-nocerts", "-out", str(key), *secrets],
            check=True,
            capture_output=True,
            timeout=60,
        )
        return key


@dataclass(slots=True)
class TlsCluster(KafkaCluster):
    """One node. `ca` is the file that clients trust. Beside CLIENTS it listens as MUTUAL and as LOGIN."""

    ca: str = ""
    _ports: dict[str, PortLease] = field(default_factory=dict)

    def client_config(self, user: str, password: str) -> dict[str, str]:
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SSL",
            "ssl.ca.location": self.ca,
            "log_level": "0",
        }

    def listener(self, name: str) -> dict[str, str]:
        """How to reach MUTUAL or LOGIN, without who one is."""
        protocol = "SSL" if name == "MUTUAL" else "SASL_SSL"
        port = self._ports[name].port
        return {
            "bootstrap.servers": f"{LOOPBACK}:{port}",
            "security.protocol": protocol,
            "ssl.ca.location": self.ca,
        }

    def add_scram_user(self, name: str, password: str) -> None:
        """For both SCRAM mechanisms."""
        for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512):
            info = ScramCredentialInfo(mechanism, 4096)
            wanted = UserScramCredentialUpsertion(name, info, password.encode())
            for done in self.admin.alter_user_scram_credentials([wanted]).values():
                done.result(timeout=30)

    def _configuration(self, node: Node) -> dict[str, str]:
        config = KafkaCluster._configuration(self, node)  # slots: super() would look in the class before them
        for name in ("MUTUAL", "LOGIN"):
            if name not in self._ports:
                self._ports[name] = PortLease()
                self._leases.append(self._ports[name])
            address = f"{name}://{LOOPBACK}:{self._ports[name].port}"
            config["listeners"] += f",{address}"
            config["advertised.listeners"] += f",{address}"
        return config


REAUTH_MS = 10_000


Kind = TypeVar("Kind", bound=TlsCluster)


def tls_cluster(folder: Path, authority: Authority, *clients: Authority, **properties: str) -> TlsCluster:
    return tls_cluster_of(TlsCluster, folder, authority, *clients, **properties)


def tls_cluster_of(
    kind: type[Kind], folder: Path, authority: Authority, *clients: Authority, **properties: str
) -> Kind:
    """Not started yet. `clients` are the certificates that MUTUAL takes. LOGIN wants a fresh login after REAUTH_MS."""
    trusted = str(authority.trusted(folder, *clients))
    oauth = "listener.name.login.oauthbearer.sasl.jaas.config"
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
    stores = {
        "listener.security.protocol.map": "CLIENTS:SSL,MUTUAL:SSL,LOGIN:SASL_SSL,CONTROLLER:PLAINTEXT",
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.login.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.login.scram-sha-256.sasl.jaas.config": SCRAM_LOGIN,
        "listener.name.login.scram-sha-512.sasl.jaas.config": SCRAM_LOGIN,
        oauth: f'{module} required unsecuredLoginStringClaim_sub="broker";',
        "connections.max.reauth.ms": str(REAUTH_MS),
        "ssl.keystore.location": str(authority.key_store),
        "ssl.keystore.password": PASSWORD,
        "ssl.keystore.type": "PKCS12",
        "ssl.truststore.location": trusted,
        "ssl.truststore.password": PASSWORD,
        "ssl.truststore.type": "PKCS12",
    }
    return kind(nodes=1, racks=("az1",), properties=stores | properties, ca=str(authority.certificate))


SCRAM_LOGIN = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
