"""SASL/GSSAPI for both Kafka clients from one property map: what each needs, and one login from a keytab.

Both use the system's Kerberos: tickets are in the usual cache (KRB5CCNAME). With a keytab, `kinit` fills the cache
before the first connection. librdkafka then repeats that at its own interval; group requests use what is in the cache.
"""

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bellwether_kafka import bounded

GSSAPI = "GSSAPI"
KEYTAB, PRINCIPAL = "sasl.kerberos.keytab", "sasl.kerberos.principal"
SERVICE, SERVICE_DEFAULT = "sasl.kerberos.service.name", "kafka"  # librdkafka's default
RELOGIN = "sasl.kerberos.min.time.before.relogin"
KINIT_TIMEOUT_S = 20.0
NO_KINIT = f"{KEYTAB} needs the program kinit (Debian package krb5-user)."


class KerberosError(Exception):
    """No login is possible. The message is a sentence that names the property or the package."""


def librdkafkas(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the properties for librdkafka. Without a keytab `kinit` must be off, or librdkafka does not start."""
    return dict(properties) if KEYTAB in properties else {RELOGIN: "0", **properties}


def keytab_of(properties: Mapping[str, str]) -> tuple[str, str] | None:
    """Returns (keytab, principal); None if tickets come from the cache. Raises KerberosError."""
    keytab, principal = properties.get(KEYTAB), properties.get(PRINCIPAL)
    if keytab and not principal:
        raise KerberosError(f"{KEYTAB} is set without {PRINCIPAL}; name the principal that the keytab is for.")
    return (str(keytab), str(principal)) if keytab else None


def check_packages() -> None:
    """Raises KerberosError unless both clients can log in here: neither includes Kerberos."""
    if importlib.util.find_spec("gssapi") is None:
        raise KerberosError(
            "sasl.mechanism GSSAPI needs the Python package gssapi; pip install bellwether-kafka[gssapi]."
        )
    # librdkafka is large, and only this function of the module needs it.
    from confluent_kafka import KafkaException  # noqa: PLC0415
    from confluent_kafka.admin import AdminClient  # noqa: PLC0415

    try:
        AdminClient({"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": GSSAPI, RELOGIN: "0", "log_level": "0"})
    except KafkaException:
        raise KerberosError(
            "sasl.mechanism GSSAPI needs a librdkafka with Kerberos, which the packaged one has not; build"
            " confluent-kafka from source against one (docs/guides/security.md)."
        ) from None


def check_keytab(keytab: str) -> None:
    """Raises KerberosError unless the file can be read and kinit is here."""
    if shutil.which("kinit") is None:
        raise KerberosError(NO_KINIT)
    try:
        os.close(bounded.opened(Path(keytab)))
    except OSError as error:
        raise KerberosError(f"The file {keytab} of {KEYTAB} cannot be read ({error.strerror}).") from None


def log_in(keytab: str, principal: str) -> None:
    """Gets a ticket into the cache. Raises KerberosError: a KDC may be away, or not know a new principal yet."""
    try:
        done = subprocess.run(  # noqa: S603 - a file and a name from the settings, which are trusted
            ["kinit", "-k", "-t", keytab, principal],  # noqa: S607 - as librdkafka calls it: from PATH
            check=False,
            capture_output=True,
            text=True,
            timeout=KINIT_TIMEOUT_S,
        )
    except FileNotFoundError:
        raise KerberosError(NO_KINIT) from None
    except subprocess.TimeoutExpired:
        raise KerberosError(
            f"No KDC has answered kinit for {principal} within {KINIT_TIMEOUT_S:.0f} s; check krb5.conf."
        ) from None
    if done.returncode:
        why = (done.stderr.strip().splitlines() or ["kinit failed"])[-1].removeprefix("kinit: ")
        raise KerberosError(
            f"The file {keytab} of {KEYTAB} does not log {principal} in ({why}); correct {PRINCIPAL}, the file, or"
            " krb5.conf."
        )
