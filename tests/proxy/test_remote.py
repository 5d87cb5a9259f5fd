"""One request to a running Rejoinder; a server in a thread answers."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from proxy.remote import RemoteError, ask


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        size = int(self.headers.get("Content-Length") or 0)
        told = {"method": self.command, "path": self.path, "key": self.headers.get("Authorization"),
                "type": self.headers.get("Content-Type"), "body": self.rfile.read(size).decode()}  # fmt: skip
        status = int(self.path.rpartition("/")[2]) if self.path.startswith("/status/") else 200
        body = json.dumps(told if status == 200 else {"error": {"message": "not so"}}).encode()
        body = b"<html>" if self.path == "/html" else body
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_DELETE = do_GET

    def log_message(self, format: str, *args: object) -> None:
        """Not a word."""


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_it_asks_with_a_key_and_a_body(url: str) -> None:
    assert ask(f"{url}/a", {})["method"] == "GET"
    told = ask(f"{url}/a", {"Authorization": "Bearer k"}, {"x": 1})
    assert told == {"method": "POST", "path": "/a", "key": "Bearer k", "type": "application/json", "body": '{"x": 1}'}
    assert ask(f"{url}/a?force=true", {}, method="DELETE")["method"] == "DELETE"


def test_a_refusal_is_told_in_the_servers_words(url: str) -> None:
    with pytest.raises(RemoteError, match="answered 409: not so"):
        ask(f"{url}/status/409", {})


@pytest.mark.parametrize("path", ["/html"])
def test_what_is_no_rejoinder_is_said_so(url: str, path: str) -> None:
    with pytest.raises(RemoteError, match="No Rejoinder answers"):
        ask(f"{url}{path}", {})


def test_nobody_there_is_said_with_what_to_do() -> None:
    with pytest.raises(RemoteError, match="rejoinder serve"):
        ask("http://127.0.0.1:9/x", {})
