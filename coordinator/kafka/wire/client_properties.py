"""Translates librdkafka's properties for `connections` and kafka-python's SASL mechanisms, so that one property map
configures both Kafka clients.

A property without an equivalent is refused by name, because silently ignoring a security property would be dangerous.
Bellwether's own properties start with "bellwether." and are not passed to librdkafka.
"""

import difflib
import ssl
from collections.abc import Callable, Mapping
from typing import Any

from bellwether_kafka.coordinator.kafka.wire import kerberos, tokens
from bellwether_kafka.coordinator.kafka.wire.kerberos import GSSAPI, KerberosError
from bellwether_kafka.coordinator.kafka.wire.tokens import AWS_MSK_IAM, OAUTHBEARER
from bellwether_kafka.coordinator.membership import CLIENT_ID
from bellwether_kafka.coordinator.properties import shown_name
from bellwether_kafka.protocol.primitives import whole_number

OWN_PREFIX = "bellwether."
API_VERSION = "bellwether.api.version"

RECEIVE_BYTES_MAX = 100_000_000  # a JoinGroup answer holds every subscription
SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", OAUTHBEARER, AWS_MSK_IAM, GSSAPI)
CALLBACK = "oauth_cb"
# By default librdkafka waits for 60 s on a dead connection, and then again on that of the next broker. Bellwether's own
# requests wait for 10 s.
LIBRDKAFKA_DEFAULTS = {"socket.timeout.ms": "10000"}
KEEPER = "_tokens"  # key of `client_config` for `transport`, which wraps the keeper for kafka-python
KEYTAB = "_keytab"  # likewise: (file, principal) for the login before the first connection

# Properties that concern only confluent-kafka, or set what is done anyway.
IGNORED = frozenset(
    {
        "allow.auto.create.topics",
        "broker.address.family",
        "client.rack",  # for librdkafka's consumers, which read weights; group requests have no rack
        "debug",
        "log_level",
        "metadata.max.age.ms",
        "sasl.kerberos.keytab",  # this and the next three: group requests use tickets that `kerberos` or librdkafka get
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.principal",
        "socket.keepalive.enable",
        "socket.nagle.disable",
        "socket.timeout.ms",
        "statistics.interval.ms",
        "topic.metadata.refresh.interval.ms",
    }
)
_PEM = "a file in PEM format"
_CERTIFICATES = f"write ssl.certificate.location and ssl.key.location instead, each {_PEM}"
# What to write instead of properties, by the beginnings of their names: of Java's clients and their login modules, and
# of librdkafka where both clients need a file. Without them the login or the trust would be lost.
INSTEAD = {
    ("sasl.jaas.config",): "write what it contains: sasl.username and sasl.password (or sasl.password.file), for"
    " OAUTHBEARER the properties sasl.oauthbearer.*, for GSSAPI sasl.kerberos.principal and sasl.kerberos.keytab",
    ("sasl.login.callback.handler", "sasl.client.callback.handler", "sasl.login.class"): "write sasl.mechanism ="
    " AWS_MSK_IAM for MSK with IAM, else sasl.oauthbearer.method = OIDC and the other properties sasl.oauthbearer.*",
    ("ssl.truststore.", "ssl.ca.pem", "ssl.ca.certificate"): f"write ssl.ca.location instead, {_PEM}",
    ("ssl.keystore.",): f"{_CERTIFICATES}, and ssl.key.password",
    ("ssl.certificate.pem", "ssl_certificate"): f"write ssl.certificate.location instead, {_PEM}",
    ("ssl.key.pem", "ssl_key"): f"write ssl.key.location instead, {_PEM}",
    ("request.timeout.ms",): "write socket.timeout.ms instead",
    ("metadata.recovery.", "client.dns.lookup"): "remove it: all addresses of a name are tried in any case",
    ("security.providers",): "remove it: it is for Java's cryptography only",
    ("sasl.oauthbearer.client.credentials.",): "write sasl.oauthbearer.client.id and sasl.oauthbearer.client.secret (or"
    " sasl.oauthbearer.client.secret.file) instead",
    ("https.ca.pem",): f"write https.ca.location instead, {_PEM}",
}
# Beginnings of the names that concern a login or trust, of which no message says that they may simply go.
_OF_SECURITY = ("sasl", "ssl", "security", "https", "enable.sasl", "enable.ssl")
_SEE_SECURITY = (
    "it concerns the login or TLS, and docs/guides/security.md has the properties for these; remove it only if the"
    " brokers need none with its meaning"
)


class ClientConfigError(ValueError):
    """A property cannot be used. The message is one sentence that names it and never shows a value: a secret may have
    been written in the wrong place."""


def librdkafka_properties(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the properties for confluent-kafka: without Bellwether's own, and with this process' tokens if the login
    needs any. A map that was already translated is unchanged. Raises ClientConfigError."""
    named = {name: value for name, value in properties.items() if not name.startswith(OWN_PREFIX)}
    theirs = {**LIBRDKAFKA_DEFAULTS, **named}
    if GSSAPI in (theirs.get("sasl.mechanism"), theirs.get("sasl.mechanisms")):
        return kerberos.librdkafkas(theirs)
    if CALLBACK in theirs or not tokens.wanted(theirs):
        return theirs
    keeper = _keeper(theirs)
    kept = {n: v for n, v in theirs.items() if n not in tokens.PROPERTIES and not n.startswith("sasl.mechanism")}
    return {**kept, "sasl.mechanism": OAUTHBEARER, CALLBACK: keeper.for_librdkafka}


def client_config(properties: Mapping[str, str]) -> dict[str, Any]:
    """Returns the settings of `Transport`, by kafka-python's names. Raises ClientConfigError, which names the property
    that is missing, or all that are unknown or unusable."""
    config: dict[str, Any] = {"client_id": CLIENT_ID, "receive_message_max_bytes": RECEIVE_BYTES_MAX}
    wrong = []
    for name, value in properties.items():
        try:
            config.update(_translated(name, str(value)))
        except ClientConfigError as error:
            wrong.append(str(error))
    if wrong:
        raise ClientConfigError(" ".join(wrong))
    if not config.get("bootstrap_servers"):
        raise ClientConfigError("bootstrap.servers is not set: name at least one broker as host:port.")
    _check_sasl(config)
    if config.get("sasl_mechanism") in (OAUTHBEARER, AWS_MSK_IAM):
        config |= {"sasl_mechanism": OAUTHBEARER, KEEPER: _keeper(properties)}
    if config.get("sasl_mechanism") == GSSAPI:
        config.setdefault("sasl_kerberos_service_name", kerberos.SERVICE_DEFAULT)
        try:
            config[KEYTAB] = kerberos.keytab_of(properties)
        except KerberosError as error:
            raise ClientConfigError(str(error)) from None
    return config


def _keeper(properties: Mapping[str, str]) -> tokens.TokenKeeper:
    try:
        return tokens.keeper(properties)
    except tokens.TokenError as error:
        raise ClientConfigError(str(error)) from None


def _translated(name: str, value: str) -> dict[str, Any]:
    if name in IGNORED or name in tokens.PROPERTIES:
        return {}
    rule = _RULES.get(name)
    if rule is None:
        raise ClientConfigError(
            f"The property {shown_name(name)} is not supported for group requests; {_advice(name)}."
        )
    key, convert = rule
    try:
        return {key: convert(value)}
    except ValueError as error:
        raise ClientConfigError(f"The property {name} cannot be used: {error}.") from None


def _advice(name: str) -> str:
    """Returns what to do about a property without a rule: by its meaning, as the other library spells it, or as the one
    that was probably meant. Only what concerns neither login nor trust is to be removed."""
    lowered = name.lower()
    dotted = lowered.replace("_", ".")
    spelled = {key: name for name, (key, _) in reversed(_RULES.items())}.get(lowered)
    if spelled is None and dotted != name and (dotted in _RULES or dotted in tokens.PROPERTIES):
        spelled = dotted
    if spelled is not None:
        return f"write {spelled} instead"
    if instead := next((words for names, words in INSTEAD.items() if lowered.startswith(names)), ""):
        return instead
    if not dotted.startswith(_OF_SECURITY):
        return "remove it"
    meant = difflib.get_close_matches(dotted, [*_RULES, *tokens.PROPERTIES], 1, 0.9)
    return f"write {meant[0]} if that is meant, else: {_SEE_SECURITY}" if meant else _SEE_SECURITY


def _check_sasl(config: Mapping[str, Any]) -> None:
    if "SASL" not in config.get("security_protocol", "PLAINTEXT"):
        if "sasl_mechanism" in config:
            raise ClientConfigError(
                "sasl.mechanism is set but security.protocol is not SASL_PLAINTEXT or SASL_SSL, so nothing would be"
                " authenticated."
            )
        return
    mechanism = config.get("sasl_mechanism")
    if mechanism is None:
        raise ClientConfigError(
            f"security.protocol is {config['security_protocol']}, but sasl.mechanism is not set; use one of"
            f" {', '.join(SASL_MECHANISMS)}."
        )
    if mechanism == AWS_MSK_IAM and config["security_protocol"] != "SASL_SSL":
        raise ClientConfigError("sasl.mechanism AWS_MSK_IAM needs security.protocol SASL_SSL.")
    by_password = mechanism not in (GSSAPI, OAUTHBEARER, AWS_MSK_IAM)
    missing = [n for n, key in _CREDENTIALS.items() if by_password and not config.get(key)]
    if missing:
        raise ClientConfigError(f"sasl.mechanism {mechanism} needs {' and '.join(missing)}.")


def check_login(config: Mapping[str, Any]) -> None:
    """Checks what a login needs on this machine: files, packages and programs. Raises ClientConfigError."""
    check_tls_files(config)
    check_kerberos(config)


def check_tls_files(config: Mapping[str, Any]) -> None:
    """Reads the certificates and keys that are named. Raises ClientConfigError: the library would report a missing file
    as an unreachable broker."""
    trust = config.get("ssl_cafile")
    if trust:
        _loaded("ssl.ca.location", trust, lambda context: context.load_verify_locations(cafile=trust))
    revoked = config.get("ssl_crlfile")
    if revoked:
        _loaded("ssl.crl.location", revoked, lambda context: context.load_verify_locations(cafile=revoked))
    chain, key, password = (config.get(name) for name in ("ssl_certfile", "ssl_keyfile", "ssl_password"))
    if key and not chain:
        raise ClientConfigError("ssl.key.location is set without ssl.certificate.location; set both.")
    if chain:
        where = "ssl.certificate.location" if not key else "ssl.certificate.location or ssl.key.location"
        # Without a password OpenSSL would ask for one on the terminal.
        secret = password or ""
        _loaded(where, f"{chain}, {key}" if key else chain, lambda c: c.load_cert_chain(chain, key, lambda: secret))


def check_kerberos(config: Mapping[str, Any]) -> None:
    """For GSSAPI, checks that both clients support it, and that a keytab can be read. Raises ClientConfigError."""
    if config.get("sasl_mechanism") != GSSAPI:
        return
    keytab = config.get(KEYTAB)
    try:
        kerberos.check_packages()
        if keytab is not None:
            kerberos.check_keytab(keytab[0])
    except KerberosError as error:
        raise ClientConfigError(str(error)) from None


def _loaded(name: str, path: str, load: Callable[[ssl.SSLContext], None]) -> None:
    try:
        load(ssl.create_default_context())
    except (OSError, ssl.SSLError) as error:
        why = error.strerror or str(error)
        raise ClientConfigError(f"The file {path} of {name} cannot be used ({why}); correct the path.") from None


def _servers(value: str) -> list[str]:
    servers = [server.strip() for server in value.split(",") if server.strip()]
    for number, server in enumerate(servers, 1):
        port = server.rsplit(":", 1)[-1] if ":" in server.rsplit("]", 1)[-1] else "9092"
        if not 0 < (whole_number(port) or 0) < 65_536:
            raise ValueError(f"entry {number} of {len(servers)} is not host:port")
    return servers


def _one_of(allowed: tuple[str, ...]) -> Callable[[str], str]:
    def convert(value: str) -> str:
        if value.upper() not in allowed:
            raise ValueError(f"its value is not one of {', '.join(allowed)}")
        return value.upper()

    return convert


def _number(value: str) -> int:
    number = whole_number(value)
    if number is None:
        raise ValueError("its value is not a whole number")
    return number


def _host_check(value: str) -> bool:
    if value not in ("https", "none"):
        raise ValueError("its value is neither https nor none")
    return value == "https"


def _verification(value: str) -> bool:
    if value.lower() != "true":
        raise ValueError("group requests always verify the broker's certificate; name its authority in ssl.ca.location")
    return True


def _version(value: str) -> tuple[int, ...]:
    parts = tuple(map(whole_number, value.split(".")))
    if None in parts or len(parts) == 1:
        raise ValueError("its value is not a version such as 2.3")
    return tuple(part for part in parts if part is not None)


_CREDENTIALS = {"sasl.username": "sasl_plain_username", "sasl.password": "sasl_plain_password"}
_RULES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "bootstrap.servers": ("bootstrap_servers", _servers),
    "metadata.broker.list": ("bootstrap_servers", _servers),
    "client.id": ("client_id", str),
    "security.protocol": ("security_protocol", _one_of(SECURITY_PROTOCOLS)),
    "sasl.mechanism": ("sasl_mechanism", _one_of(SASL_MECHANISMS)),
    "sasl.mechanisms": ("sasl_mechanism", _one_of(SASL_MECHANISMS)),
    "sasl.username": ("sasl_plain_username", str),
    "sasl.password": ("sasl_plain_password", str),
    "sasl.kerberos.service.name": ("sasl_kerberos_service_name", str),
    "ssl.ca.location": ("ssl_cafile", str),
    "ssl.certificate.location": ("ssl_certfile", str),
    "ssl.key.location": ("ssl_keyfile", str),
    "ssl.key.password": ("ssl_password", str),
    "ssl.crl.location": ("ssl_crlfile", str),
    "ssl.endpoint.identification.algorithm": ("ssl_check_hostname", _host_check),
    "enable.ssl.certificate.verification": ("_verify", _verification),
    "socket.connection.setup.timeout.ms": ("socket_connection_setup_timeout_ms", _number),
    "reconnect.backoff.ms": ("reconnect_backoff_ms", _number),
    "reconnect.backoff.max.ms": ("reconnect_backoff_max_ms", _number),
    "connections.max.idle.ms": ("connections_max_idle_ms", _number),
    "receive.message.max.bytes": ("receive_message_max_bytes", _number),
    API_VERSION: ("api_version", _version),
}
