"""Rows about who we are to the brokers: rights that are missing or taken away, logins and certificates that are wrong
from the start, expire or are replaced while we lead. On brokers of their own.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

from confluent_kafka.admin import (
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from tests.interop.security.test_lead_refusals import refused, run
from tests.interop.support.bellwether import INSTANCE, Bellwether, Ended
from tests.interop.support.members import wait_until
from tests.interop.support.scenes.kill_points import LIMIT_S, OPTIONS
from tests.interop.support.tls import REAUTH_MS, Authority
from tests.measure.faults.rows import Row
from tests.measure.faults.scene import load, print_result
from tests.measure.faults.secure import DAY_S, PARTITIONS, SECRET, LoginScene, Secure, mutual, sign, testbed

OTHER_SECRET = "another-word-for-tests"  # noqa: S105 - as `SECRET`
REFUSED_S = 15.0  # our ten seconds to connect, and the start of a process
RECONNECT_S = 2.0  # the longest pause between two attempts
CERTIFICATE_S = 30
FOLLOWED_S = 1.5 + 10.0 + 3.0  # until our watch has seen a topic grow, and rounds of ours are ten seconds apart
PARKED_S = 14.0
TOKEN_S = 12


def logins(wanted: Callable[[str], bool]) -> Iterator[Row]:
    rows = {name: row for name, row in ROWS.items() if wanted(name)}
    if rows:
        with testbed() as here:
            for name, row in rows.items():
                yield row(here, name)


# ---- wrong from the start ----------------------------------------------------------------------------------------


def _refused(
    fault: str, wrong: Callable[[LoginScene], dict[str, str]], *words: str
) -> Callable[[LoginScene, str], Row]:
    def row(here: LoginScene, name: str) -> Row:
        return ended(here.folder, fault, wrong(here), name, *words)

    return row


def ended(
    folder: Path,
    fault: str,
    kafka: Mapping[str, str],
    group: str,
    *words: str,
    kind: str = "login",
    check: Callable[[], None] = lambda: None,
) -> Row:
    """A run that must be refused in a sentence with these words."""
    began = time.monotonic()
    found = run(folder, kafka, {"name": group})
    took_s = time.monotonic() - began
    broken: tuple[str, ...] = ()
    try:
        refused(found, *words)
        check()
    except AssertionError as error:
        broken = (str(error)[:300],)
    return print_result(
        Row(kind, fault, took_s, REFUSED_S, f"exit code {found.code}: `{_sentence(found)}`", broken, load())
    )


def _sentence(found: Ended) -> str:
    message = [line for line in found.text.splitlines() if line and not line.startswith("{")]
    return message[-1].replace("|", "/")[:110] if message else "nothing said"


def _stranger(here: LoginScene) -> dict[str, str]:
    stranger = Authority.make(here.folder, "stranger")
    return here.scram("bellwether") | {"ssl.ca.location": str(stranger.certificate)}


def _expired(here: LoginScene) -> dict[str, str]:
    return mutual(here, "expired", -60)


# ---- while we lead -------------------------------------------------------------------------------------------------

Login = Callable[[LoginScene], dict[str, str]]


def _led(
    fault: str,
    promised: Callable[[LoginScene], float],
    login: Login,
    work: Callable[[LoginScene, Secure, Bellwether], float],
) -> Callable[[LoginScene, str], Row]:
    """A row of a group at rest under us, which has logged in like this."""

    def row(here: LoginScene, name: str) -> Row:
        group = Secure(here.cluster, here.flock, name)
        took_s, leader, broken = LIMIT_S, "nobody", tuple[str, ...]()
        lead = Bellwether(here.cluster, [name], options=OPTIONS, login=login(here))
        try:
            lead.start(wait=False)
            lead.logged("membership", LIMIT_S, what="LEADING")
            group.start()
            took_s = work(here, group, lead)
            group.settle()
            leader = "the sidecar" if group.last().leader.startswith(f"{INSTANCE}-") else "a member"
            broken = group.trouble()
        except AssertionError as error:
            broken = (str(error)[:300], lead.tail(4))
        finally:
            if not lead.running:
                broken = (*broken, f"the sidecar has ended: {lead.tail(4)}")
            lead.__exit__(None, None, None)
        group.close()
        return print_result(
            Row("login", fault, took_s, promised(here), "; ".join([f"led by {leader}", *group.message]), broken, load())
        )

    return row


def _joined(group: Secure) -> float:
    began = time.monotonic()
    group.members.append(group.member())
    return group.until_owned(began)


def _renewed(_: LoginScene, group: Secure, __: Bellwether) -> float:
    generation = group.last().generation
    time.sleep(2.2 * REAUTH_MS / 1000)
    assert group.last().generation == generation, "a round was made"
    return _joined(group)


def _parked(_: LoginScene, group: Secure, lead: Bellwether) -> float:
    """A member does not come back for longer than a login lasts. From the moment when it does."""
    slow = group.member(own_process=True)
    group.members.append(slow)
    group.until_owned(time.monotonic())  # it has come
    group.settle()
    generation = group.last().generation
    os.kill(slow.host.pid, signal.SIGSTOP)
    group.members.append(group.member())
    time.sleep(PARKED_S)
    os.kill(slow.host.pid, signal.SIGCONT)
    took_s = group.until_owned(time.monotonic())
    group.settle()
    group.message.append(f"{group.last().generation - generation} rebalance")
    return took_s


def _password_changed(here: LoginScene, group: Secure, lead: Bellwether) -> float:
    """A consumer joins as soon as our next login has been refused, which the log must tell."""
    here.cluster.add_scram_user("changing", OTHER_SECRET)
    wait_until(lambda: _alerts(lead) > 0, LIMIT_S, lambda: f"nothing was said: {lead.tail(6)}")
    took_s = _joined(group)
    group.settle()
    group.message.append("the log says that Bellwether's credentials are refused")
    here.cluster.add_scram_user("changing", SECRET)
    lead.logged("membership", LIMIT_S, what="WATCHING")
    return took_s


def _alerts(lead: Bellwether) -> int:
    return sum("refuse Bellwether's credentials" in line["reason"] for line in lead.log("membership", what="ALERT"))


def _outlived(cut: bool, renewed: bool, here: LoginScene, group: Secure, _: Bellwether) -> float:
    time.sleep(CERTIFICATE_S)
    if renewed:
        sign(here.authority, here.folder / f"{group.name}.pem", here.folder / f"{group.name}.csr", DAY_S // 2)
    if cut:
        here.cluster.cut()
    return _joined(group)


def _grown(here: LoginScene, group: Secure, lead: Bellwether) -> float:
    _outlived(True, True, here, group, lead)
    group.settle()
    began = time.monotonic()
    here.cluster.add_partitions(group.name, PARTITIONS + 3)
    group.partitions = PARTITIONS + 3
    return group.until_owned(began)


def _broker_renewed(here: LoginScene, group: Secure, _: Bellwether) -> float:
    name, value = "listener.name.login.ssl.keystore.location", str(here.folder / "next" / "broker.p12")
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    for done in here.cluster.admin.incremental_alter_configs([resource]).values():
        done.result(timeout=30)
    here.cluster.cut()
    return _joined(group)


def _at_once(here: LoginScene) -> float:
    return here.at_once_s


def _reconnected(here: LoginScene) -> float:
    return here.at_once_s + RECONNECT_S


def _silent(here: LoginScene) -> float:
    return here.silent_s


def _followed(here: LoginScene) -> float:
    return FOLLOWED_S + here.at_once_s


def _scram(user: str) -> Login:
    def login(here: LoginScene) -> dict[str, str]:
        here.cluster.add_scram_user(user, SECRET)
        return here.scram(user)

    return login


def _token(here: LoginScene) -> dict[str, str]:
    return {
        **here.cluster.listener("LOGIN"),
        "sasl.mechanism": "OAUTHBEARER",
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": f"principal=bellwether lifeSeconds={TOKEN_S}",
    }


def _knows_next(here: LoginScene) -> dict[str, str]:
    """Trusts the certificate that the broker will have, too."""
    (here.folder / "next").mkdir()
    following = Authority.make(here.folder / "next", "broker")
    both = here.folder / "both.pem"
    both.write_text(Path(here.cluster.ca).read_text() + following.certificate.read_text())
    return _scram("trusting")(here) | {"ssl.ca.location": str(both)}


def _short(name: str) -> Login:
    return lambda here: mutual(here, name, CERTIFICATE_S)


EXPIRES = f"Bellwether's certificate expires {CERTIFICATE_S} s after its start"
ROWS: dict[str, Callable[[LoginScene, str], Row]] = {
    "wrong-password": _refused(
        "a wrong password (SCRAM over TLS), until the process has ended",
        lambda here: here.scram("bellwether") | {"sasl.password": OTHER_SECRET},
        "sasl.",
    ),
    "wrong-authority": _refused(
        "a broker whose certificate Bellwether does not trust, until the process has ended", _stranger, "ssl.*"
    ),
    "expired": _refused(
        "a certificate of Bellwether's that has expired, until the process has ended", _expired, "ssl.*"
    ),
    "no-tls": _refused(
        "no TLS to a port that wants it, until the process has ended",
        lambda here: {"bootstrap.servers": here.cluster.listener("LOGIN")["bootstrap.servers"]},
        "security.protocol",
    ),
    "logins-renewed": _led(
        "logins that last 10 s (connections.max.reauth.ms), twice renewed, then a consumer joins",
        _at_once, _scram("renewing"), _renewed,
    ),
    "tokens-renewed": _led(
        f"unsecured OAUTHBEARER tokens of {TOKEN_S} s, renewed, then a consumer joins", _at_once, _token, _renewed
    ),
    "login-parked": _led(
        f"Bellwether's JoinGroup waits for a member for {PARKED_S:.0f} s with a login of 10 s;"
        " from that member's return",
        _at_once, _scram("waiting"), _parked,
    ),
    "password-changed": _led(
        "Bellwether's password is changed on the broker, the next login is refused, and a consumer joins",
        _silent, _scram("changing"), _password_changed,
    ),
    "certificate-outlived": _led(
        f"{EXPIRES}, connections stay", _at_once, _short("certificate-outlived"), partial(_outlived, False, False)
    ),
    "certificate-lost": _led(
        f"{EXPIRES}, then every connection is cut", _silent, _short("certificate-lost"), partial(_outlived, True, False)
    ),
    "certificate-renewed": _led(
        f"{EXPIRES}, a new one is put into its file, then every connection is cut",
        _reconnected, _short("certificate-renewed"), partial(_outlived, True, True),
    ),
    "certificate-followed": _led(
        "the same, and then the topic grows: until what is new is owned",
        _followed, _short("certificate-followed"), _grown,
    ),
    "broker-renewed": _led(
        "the broker's certificate is replaced by another one that Bellwether trusts, and every connection is cut",
        _reconnected, _knows_next, _broker_renewed,
    ),
}  # fmt: skip
