"""A broker that speaks TLS only, with certificates made for it by the JDK's keytool."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.interop.brokers import LOOPBACK, KafkaCluster

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

    def trusted(self, folder: Path) -> Path:
        """A trust store that holds the certificate, for Java."""
        trust = folder / "trust.p12"
        store = ("-keystore", str(trust), "-storepass", PASSWORD, "-storetype", "PKCS12")
        keytool("-importcert", "-noprompt", *store, "-alias", "authority", "-file", str(self.certificate))
        return trust


@dataclass(slots=True)
class TlsCluster(KafkaCluster):
    """One node. `ca` is the file that clients trust."""

    ca: str = ""

    def client_config(self, user: str, password: str) -> dict[str, str]:
        return {
            "bootstrap.servers": self.bootstrap,
            "security.protocol": "SSL",
            "ssl.ca.location": self.ca,
            "log_level": "0",
        }


def tls_cluster(folder: Path, authority: Authority, **properties: str) -> TlsCluster:
    """Not started yet."""
    stores = {
        "listener.security.protocol.map": "CLIENTS:SSL,CONTROLLER:PLAINTEXT",
        "ssl.keystore.location": str(authority.key_store),
        "ssl.keystore.password": PASSWORD,
        "ssl.keystore.type": "PKCS12",
        "ssl.truststore.location": str(authority.trusted(folder)),
        "ssl.truststore.password": PASSWORD,
        "ssl.truststore.type": "PKCS12",
    }
    return TlsCluster(nodes=1, racks=("az1",), properties=stores | properties, ca=str(authority.certificate))
