"""Asking a running Rejoinder from the command line: one request, one JSON object, errors in words for people."""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any, Final

TIMEOUT_S: Final = 30.0


class RemoteError(Exception):
    """It refused, or nobody answers; the message says what to do."""


def ask(url: str, headers: Mapping[str, str], body: object = None, method: str | None = None) -> dict[str, Any]:
    """What it answers. body: sent as JSON, by POST unless `method` says otherwise. Raises RemoteError."""
    data = None if body is None else json.dumps(body).encode()
    sent = {**headers, "Content-Type": "application/json"} if data is not None else dict(headers)
    try:
        asked = urllib.request.Request(url, data, sent, method=method)
        with urllib.request.urlopen(asked, timeout=TIMEOUT_S) as reply:
            return dict(json.load(reply))
    except urllib.error.HTTPError as refused:
        try:
            message = json.load(refused)["error"]["message"]
        except (ValueError, KeyError, TypeError):
            message = refused.reason
        raise RemoteError(f"{url} answered {refused.code}: {message}") from None
    except (urllib.error.URLError, OSError, ValueError) as trouble:
        raise RemoteError(
            f"No Rejoinder answers at {url} ({trouble}). Start one with `rejoinder serve` or say where with --url."
        ) from None
