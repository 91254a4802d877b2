"""An endpoint that gives tokens, and a login that asks it."""

import json
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, HTTPServer

LOGIN = {"bootstrap.servers": "b:1", "security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER"}


SECRET = "hush-4711"  # noqa: S105 - of an endpoint that lives as long as a test


class Endpoint:
    """A token endpoint: `answer` is what it says next, (status, JSON); `asked` what it was asked."""

    def __init__(self) -> None:
        self.answer: tuple[int, object] = 200, {}
        self.elsewhere = ""
        self.asked: list[tuple[str, dict[str, list[str]]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = self.rfile.read(int(self.headers["Content-Length"] or 0)).decode()
                outer.asked.append((self.headers["Authorization"] or "", urllib.parse.parse_qs(form)))
                status, message = outer.answer
                self.send_response(status)
                if outer.elsewhere:
                    self.send_header("Location", outer.elsewhere)
                self.end_headers()
                self.wfile.write(message if isinstance(message, bytes) else json.dumps(message).encode())

            def do_GET(self) -> None:
                self.do_POST()

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True)
        self.thread.start()

    @property
    def properties(self) -> dict[str, str]:
        return {
            **LOGIN,
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{self.server.server_port}/token",
            "sasl.oauthbearer.client.id": "bellwether",
            "sasl.oauthbearer.client.secret": SECRET,
            "sasl.oauthbearer.scope": "kafka",
            "sasl.oauthbearer.extensions": "logicalCluster=lkc-1",
        }

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()
