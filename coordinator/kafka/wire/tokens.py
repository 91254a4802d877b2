"""Bearer tokens for SASL/OAUTHBEARER, made in one place for both Kafka clients from librdkafka's properties.

There are three sources: unsecured tokens (RFC 7515 without a signature, for experiments), an OpenID Connect endpoint
(client credentials, RFC 6749 section 4.4), and AWS_MSK_IAM, which is OAUTHBEARER with a signed URL as its token. A
token is cached and renewed in its own thread after four fifths of its lifetime, so that a login never waits for an
endpoint while the old token is valid. No message contains any part of a token.
"""

import base64
import json
import re
import threading
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from bellwether_kafka.bounded import fetched, json_of
from bellwether_kafka.coordinator import clocks
from bellwether_kafka.coordinator.names import keep_secret
from bellwether_kafka.protocol.primitives import whole_number

OAUTHBEARER = "OAUTHBEARER"
AWS_MSK_IAM = "AWS_MSK_IAM"
UNSECURED = "enable.sasl.oauthbearer.unsecure.jwt"
METHOD = "sasl.oauthbearer.method"
CONFIG = "sasl.oauthbearer.config"
CLIENT_ID, CLIENT_SECRET = "sasl.oauthbearer.client.id", "sasl.oauthbearer.client.secret"
ENDPOINT, SCOPE = "sasl.oauthbearer.token.endpoint.url", "sasl.oauthbearer.scope"
EXTENSIONS, CA = "sasl.oauthbearer.extensions", "https.ca.location"
PROPERTIES = frozenset({UNSECURED, METHOD, CONFIG, CLIENT_ID, CLIENT_SECRET, ENDPOINT, SCOPE, EXTENSIONS, CA})

ENDPOINT_TIMEOUT_S = 5.0
ANSWER_BYTES_MAX = 1_000_000
RENEW_SHARE = 0.8
RENEW_S_MAX = 86_400.0  # even if a token is valid for years
RETRY_S = 10.0
LIFE_DEFAULT_S = 3600  # of unsecured tokens, as in librdkafka, and of opaque ones that come without an expiry
SECONDS_MAX = 1e11  # the year 5138; larger numbers are milliseconds or nonsense
REDIRECTS = (301, 302, 303, 307, 308)
TOO_MANY_REQUESTS, SERVER_ERROR = 429, 500
AWS_LIFE_S = 900
MESSAGE_LENGTH_MAX = 200  # characters of AWS' error message
AWS_SERVICE, AWS_ACTION = "kafka-cluster", "kafka-cluster:Connect"


class TokenError(Exception):
    """There is no token. The message is a sentence that names the property and never shows a secret."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token. `expires_at_s` is in epoch seconds. The value is left out of the repr."""

    value: str = field(repr=False)
    expires_at_s: float
    principal: str = ""
    extensions: Mapping[str, str] = field(default_factory=dict)


TokenSource = Callable[[], Token]


class TokenKeeper:
    """Keeps the newest token of one source. Thread-safe."""

    def __init__(self, source: TokenSource, *, clock: Callable[[], float] = clocks.wall) -> None:
        self._source = source
        self._clock = clock
        self._lock = threading.Lock()
        self._token: Token | None = None
        self._timer: threading.Timer | None = None

    def token(self) -> Token:
        """Returns a valid token. Raises TokenError for any error of the source."""
        with self._lock:
            token = self._token
            return self._kept(self._fresh()) if token is None or token.expires_at_s <= self._clock() else token

    def for_librdkafka(self, _: str | None = None) -> tuple[str, float, str, dict[str, str]]:
        """Returns (token, expiry in epoch seconds, principal, extensions), as confluent-kafka's `oauth_cb`."""
        token = self.token()
        return token.value, token.expires_at_s, token.principal, dict(token.extensions)

    def _fresh(self) -> Token:
        try:
            return self._source()
        except TokenError:
            raise
        except Exception as error:  # a source may raise anything, and callers handle one error
            raise TokenError(
                f"No token was obtained ({type(error).__name__}); check the login of sasl.mechanism."
            ) from (error)

    def _kept(self, fresh: Token) -> Token:
        keep_secret(fresh.value, renewed=True)
        self._token = fresh
        self._renew_in(min(RENEW_S_MAX, max(1.0, (fresh.expires_at_s - self._clock()) * RENEW_SHARE)))
        return fresh

    def _renew_in(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = threading.Timer(seconds, self._again)
        self._timer.daemon = True
        self._timer.start()

    def _again(self) -> None:
        try:
            fresh = self._fresh()
        except TokenError:  # the old one is still valid; a caller that needs a new one gets the error
            self._renew_in(RETRY_S)
            return
        with self._lock:
            self._kept(fresh)


def wanted(properties: Mapping[str, str]) -> bool:
    """Returns whether a login with these properties needs a token."""
    return _mechanism(properties) in (OAUTHBEARER, AWS_MSK_IAM)


def _mechanism(properties: Mapping[str, str]) -> str:
    return (properties.get("sasl.mechanism") or properties.get("sasl.mechanisms") or "").upper()


def keeper(properties: Mapping[str, str]) -> TokenKeeper:
    """Returns the keeper for these properties, which all clients of the process share. Raises TokenError."""
    relevant = {name: value for name, value in properties.items() if name in PROPERTIES or name.startswith("sasl.mech")}
    return _keeper(tuple(sorted(relevant.items())))


@lru_cache(maxsize=16)
def _keeper(relevant: tuple[tuple[str, str], ...]) -> TokenKeeper:
    properties = dict(relevant)
    if _mechanism(properties) == AWS_MSK_IAM:
        return TokenKeeper(lambda: msk_token(*aws_login()))
    if properties.get(METHOD, "default").lower() == "oidc":
        return TokenKeeper(_oidc(properties))
    if properties.get(UNSECURED, "false").lower() == "true":
        claims = _unsecured(properties.get(CONFIG, ""))
        return TokenKeeper(lambda: unsecured_token(claims, clocks.wall()))
    raise TokenError(
        f"sasl.mechanism OAUTHBEARER needs a source of tokens; set {METHOD} to oidc with {ENDPOINT}, {CLIENT_ID} and"
        f" {CLIENT_SECRET}, or {UNSECURED} to true where brokers take unsecured tokens."
    )


# ---- unsecured -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class UnsecuredClaims:
    principal: str
    life_s: int = LIFE_DEFAULT_S
    principal_claim: str = "sub"
    scope_claim: str = "scope"
    scopes: tuple[str, ...] = ()


def unsecured_token(claims: UnsecuredClaims, now_s: float) -> Token:
    """Returns a JWS without a signature, as brokers of development clusters accept it."""
    body: dict[str, Any] = {claims.principal_claim: claims.principal, "iat": now_s, "exp": now_s + claims.life_s}
    if claims.scopes:
        body[claims.scope_claim] = list(claims.scopes)
    value = f"{_url64(json.dumps({'alg': 'none'}).encode())}.{_url64(json.dumps(body).encode())}."
    return Token(value, now_s + claims.life_s, claims.principal)


def _unsecured(text: str) -> UnsecuredClaims:
    """Parses librdkafka's `principal=x scope=a,b lifeSeconds=60 principalClaimName=sub scopeClaimName=scope`."""
    allowed = ("principal", "scope", "lifeSeconds", "principalClaimName", "scopeClaimName")
    options = dict(part.partition("=")[::2] for part in text.split())
    unknown_options = sorted(options.keys() - set(allowed))
    if unknown_options:
        raise TokenError(f"{CONFIG} has an option that is not known; known are {', '.join(allowed)}.")
    if not options.get("principal"):
        raise TokenError(f"{CONFIG} names no principal; write principal=NAME.")
    life = options.get("lifeSeconds", str(LIFE_DEFAULT_S))
    if not life.isdigit() or not int(life):
        raise TokenError(f"{CONFIG} has a lifeSeconds that is no number of seconds; write lifeSeconds=3600.")
    scopes = tuple(scope for scope in options.get("scope", "").split(",") if scope)
    return UnsecuredClaims(
        principal=options["principal"],
        life_s=int(life),
        principal_claim=options.get("principalClaimName", "sub"),
        scope_claim=options.get("scopeClaimName", "scope"),
        scopes=scopes,
    )


# ---- OpenID Connect --------------------------------------------------------------------------------------------------


def _oidc(properties: Mapping[str, str]) -> TokenSource:
    missing = [name for name in (ENDPOINT, CLIENT_ID, CLIENT_SECRET) if not properties.get(name)]
    if missing:
        raise TokenError(f"{METHOD} is oidc, which needs {' and '.join(missing)}; set it.")
    url = properties[ENDPOINT]
    if not re.match(r"https?://", url):
        raise TokenError(f"{ENDPOINT} is no address; write https://host/path.")
    extensions = dict(part.partition("=")[::2] for part in properties.get(EXTENSIONS, "").split(",") if part)
    return lambda: _asked(url, properties, extensions)


def _asked(url: str, properties: Mapping[str, str], extensions: Mapping[str, str]) -> Token:
    import http.client  # noqa: PLC0415 - as in `fetched`: too large for a guard
    import urllib.error  # noqa: PLC0415

    form = {"grant_type": "client_credentials"} | ({"scope": properties[SCOPE]} if properties.get(SCOPE) else {})
    login = f"{properties[CLIENT_ID]}:{properties[CLIENT_SECRET]}".encode()
    encoded = base64.b64encode(login).decode()
    keep_secret(encoded)
    headers = {"Authorization": f"Basic {encoded}", "Accept": "application/json"}
    body = urllib.parse.urlencode(form).encode()
    where = f"The token endpoint {url.partition('?')[0]} of {ENDPOINT}"
    try:
        ca = properties.get(CA) or None
        granted = json_of(fetched(url, ANSWER_BYTES_MAX, ENDPOINT_TIMEOUT_S, body=body, headers=headers, ca=ca))
    except urllib.error.HTTPError as error:
        error.close()
        raise TokenError(f"{where} answered {error.code}; {_remedy(error.code)}.") from None
    except (OSError, http.client.HTTPException) as error:
        why = getattr(error, "reason", None) or getattr(error, "strerror", None) or type(error).__name__
        raise TokenError(f"{where} cannot be reached ({why}); check the address, and {CA} for its authority.") from None
    except ValueError:
        raise TokenError(f"{where} answered no JSON; check the address.") from None
    value = granted.get("access_token") if isinstance(granted, dict) else None
    if not isinstance(value, str):
        raise TokenError(f"{where} answered without an access_token; check the address.")
    claims, now_s = _claims(value), clocks.wall()
    expires_at_s = _expires_at_s(granted.get("expires_in"), claims.get("exp"), now_s)
    if expires_at_s <= now_s:
        raise TokenError(f"{where} answered with a token that has ended already; check the clock of this machine.")
    return Token(value, expires_at_s, str(claims.get("sub", "")), extensions)


def _remedy(code: int) -> str:
    if code in REDIRECTS:
        return "a redirect is not followed, because the client secret is for this address only; correct it"
    if code == TOO_MANY_REQUESTS or code >= SERVER_ERROR:
        return "the endpoint is overloaded or at fault, whatever the login: try again"
    return f"check {CLIENT_ID} and {CLIENT_SECRET}"


def _expires_at_s(expires_in: object, exp: object, now_s: float) -> float:
    """Returns the expiry in epoch seconds: the earlier of the JWT's `exp`, which brokers use, and `expires_in`, which
    RFC 6749 only recommends and some endpoints send as text."""
    life_s, end_s = _seconds(expires_in), _seconds(exp)
    ends = [now_s + life_s] if life_s else []
    return min([*ends, *([end_s] if end_s else [])], default=now_s + LIFE_DEFAULT_S)


def _seconds(value: object) -> float | None:
    """Returns a number above 0; None for any other value."""
    if isinstance(value, str):
        return whole_number(value) or None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < SECONDS_MAX:
        return None
    return float(value)


def _claims(value: str) -> dict[str, Any]:
    """Returns the claims of a JWT; empty for an opaque token."""
    try:
        body = value.split(".")[1]
        claims = json_of(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (IndexError, ValueError):
        return {}
    return claims if isinstance(claims, dict) else {}


# ---- AWS -------------------------------------------------------------------------------------------------------------


def aws_login() -> tuple[Any, str]:
    """Returns credentials and region from the sources that AWS' own tools use. Raises TokenError."""
    try:
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415 - an extra
        from botocore.session import Session  # noqa: PLC0415
    except ImportError:
        raise TokenError("sasl.mechanism AWS_MSK_IAM needs botocore; install bellwether-kafka[msk].") from None
    try:
        session = Session()
        region, credentials = session.get_config_variable("region"), session.get_credentials()
        keys = credentials.get_frozen_credentials() if credentials is not None else None
    except ClientError as error:  # STS has refused the role
        error_of = error.response.get("Error", {})
        asked, code, why = (
            error.operation_name,
            error_of.get("Code", "no code"),
            str(error_of.get("Message", ""))[:MESSAGE_LENGTH_MAX],
        )
        raise TokenError(
            f"sasl.mechanism AWS_MSK_IAM gets no credentials of AWS: {asked} was refused ({code}: {why.rstrip('.')});"
            " check the trust policy of the role."
        ) from None
    except BotoCoreError as error:
        raise TokenError(
            f"sasl.mechanism AWS_MSK_IAM finds no credentials of AWS ({type(error).__name__}); check role and profile."
        ) from None
    if not region:
        raise TokenError("sasl.mechanism AWS_MSK_IAM needs a region; set AWS_DEFAULT_REGION.")
    if keys is None:
        raise TokenError(
            "sasl.mechanism AWS_MSK_IAM finds no credentials of AWS; give the process a role, a profile or keys."
        )
    keep_secret(keys.secret_key, renewed=True)
    keep_secret(keys.token or "", renewed=True)
    return keys, region


def msk_token(credentials: Any, region: str) -> Token:
    """Returns the token for MSK's OAUTHBEARER: a presigned URL (AWS signature version 4) in URL-safe base 64."""
    from botocore.auth import SigV4QueryAuth  # noqa: PLC0415 - an extra
    from botocore.awsrequest import AWSRequest  # noqa: PLC0415

    url = f"https://kafka.{region}.amazonaws.com/?Action={urllib.parse.quote(AWS_ACTION, safe='')}"
    request = AWSRequest("GET", url)
    SigV4QueryAuth(credentials, AWS_SERVICE, region, expires=AWS_LIFE_S).add_auth(request)
    signed = f"{request.url}&User-Agent=bellwether"
    return Token(_url64(signed.encode()), clocks.wall() + AWS_LIFE_S, AWS_SERVICE)


def _url64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
