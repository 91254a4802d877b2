"""`python -m tests.lab.hanging_calls.process run ...`: Bellwether that writes each heartbeat which a broker has
answered into the file $HEARTBEATS, as group and time of sending. With $UNSIGNED_LIFE_S its tokens for AWS_MSK_IAM are
unsecured ones, which any broker takes, made of credentials that STS has given.
"""

import os
import time
from typing import Any

from bellwether_kafka.coordinator.cli import app
from bellwether_kafka.coordinator.kafka.wire import Transport, tokens
from bellwether_kafka.coordinator.membership import Heartbeat, RequestFailed


def install() -> None:
    request = Transport.request
    heartbeats = os.open(os.environ["HEARTBEATS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    async def noted(transport: Transport, command: Any) -> Any:
        sent = time.monotonic()
        answer = await request(transport, command)
        if isinstance(command, Heartbeat) and not isinstance(answer, RequestFailed):
            os.write(heartbeats, f"{command.group_id} {sent}\n".encode())
        return answer

    setattr(Transport, "request", noted)  # noqa: B010 - mypy would see a method assigned
    if life_s := os.environ.get("UNSIGNED_LIFE_S"):
        claims = tokens.UnsecuredClaims("bellwether", int(life_s))
        setattr(tokens, "msk_token", lambda *_: tokens.unsecured_token(claims, time.time()))  # noqa: B010 - as above


if __name__ == "__main__":
    install()
    app()
