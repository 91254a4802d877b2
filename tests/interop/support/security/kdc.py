"""A Kerberos KDC on loopback with a realm of its own, and a broker that lets clients log in by it. Needs MIT Kerberos
(Debian packages krb5-kdc, krb5-admin-server, krb5-user)."""

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.interop.support.brokers import KafkaCluster, Node
from tests.interop.support.ports import LOOPBACK, PortLease

REALM = "BELLWETHER.TEST"
SERVICE = f"kafka/{LOOPBACK}@{REALM}"
CLIENT = f"bellwether@{REALM}"
REAUTH_MS = 10_000
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
PATH = f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin"


def missing_program() -> str | None:
    return next((name for name in PROGRAMS if shutil.which(name, path=PATH) is None), None)


@dataclass(frozen=True, slots=True)
class Kdc:
    """`environment` names the KDC to programs that log in; their tickets are in the file of KRB5CCNAME."""

    folder: Path
    environment: Mapping[str, str]

    def keytab(self, principal: str) -> Path:
        """Makes the principal, and a file of its key."""
        file = self.folder / f"{principal.split('@', maxsplit=1)[0].replace('/', '-')}.keytab"
        self.run("kadmin.local", "-r", REALM, "-q", f"addprinc -randkey {principal}")
        self.run("kadmin.local", "-r", REALM, "-q", f"ktadd -k {file} {principal}")
        return file

    def run(self, program: str, *arguments: str) -> None:
        done = subprocess.run(
            [str(shutil.which(program, path=PATH)), *arguments],
            env=os.environ | dict(self.environment),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, f"{program}: {done.stdout}{done.stderr}"


@contextmanager
def kdc(folder: Path) -> Iterator[Kdc]:
    """Runs until the end of the block."""
    lease = PortLease()
    (folder / "krb5.conf").write_text(
        f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n rdns = false\n"
        f" dns_canonicalize_hostname = false\n udp_preference_limit = 1\n"
        f"[realms]\n {REALM} = {{\n  kdc = {LOOPBACK}:{lease.port}\n }}\n"
    )
    (folder / "kdc.conf").write_text(
        f"[kdcdefaults]\n kdc_listen = {LOOPBACK}:{lease.port}\n kdc_tcp_listen = {LOOPBACK}:{lease.port}\n"
        f"[realms]\n {REALM} = {{\n  database_name = {folder}/principal\n  key_stash_file = {folder}/stash\n }}\n"
    )
    environment = {
        "KRB5_CONFIG": str(folder / "krb5.conf"),
        "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
    }
    made = Kdc(folder, environment)
    made.run("kdb5_util", "create", "-s", "-r", REALM, "-P", "for-tests")
    with (folder / "kdc.log").open("wb") as log:
        process = subprocess.Popen(
            [str(shutil.which("krb5kdc", path=PATH)), "-n", "-r", REALM],
            env=os.environ | environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            yield made
        finally:
            process.terminate()
            process.wait(30)
            lease.release()


@dataclass(slots=True)
class KerberosCluster(KafkaCluster):
    """One node. Beside CLIENTS, which asks for nothing, it listens as KERBEROS and wants a fresh login now and then."""

    _kerberos: list[PortLease] = field(default_factory=list)

    @property
    def login(self) -> dict[str, str]:
        """How to reach KERBEROS with the tickets that are there."""
        return {
            "bootstrap.servers": f"{LOOPBACK}:{self._kerberos[0].port}",
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "GSSAPI",
            "sasl.kerberos.service.name": "kafka",
        }

    def _configuration(self, node: Node) -> dict[str, str]:
        config = KafkaCluster._configuration(self, node)  # slots: super() would look in the class before them
        if not self._kerberos:
            self._kerberos.append(PortLease())
            self._leases.append(self._kerberos[0])
        address = f"KERBEROS://{LOOPBACK}:{self._kerberos[0].port}"
        config["listeners"] += f",{address}"
        config["advertised.listeners"] += f",{address}"
        return config


def by_kerberos(listener: str, keytab: Path) -> dict[str, str]:
    """A broker's properties for a listener at which clients log in by GSSAPI."""
    module = "com.sun.security.auth.module.Krb5LoginModule"
    key = f'useKeyTab=true storeKey=true keyTab="{keytab}" principal="{SERVICE}"'
    return {
        f"listener.name.{listener}.sasl.enabled.mechanisms": "GSSAPI",
        f"listener.name.{listener}.gssapi.sasl.jaas.config": f"{module} required {key};",
        "sasl.kerberos.service.name": "kafka",
    }


def kerberos_cluster(keytab: Path) -> KerberosCluster:
    """Returns a cluster that is not started yet. JAVA_TOOL_OPTIONS has to name the KDC to its JVMs."""
    properties = {
        "listener.security.protocol.map": "CLIENTS:PLAINTEXT,KERBEROS:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "connections.max.reauth.ms": str(REAUTH_MS),
        **by_kerberos("kerberos", keytab),
    }
    return KerberosCluster(nodes=1, racks=("az1",), properties=properties)
