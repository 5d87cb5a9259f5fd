"""The proxy's errors. Each knows the HTTP status and the OpenAI words it deserves, so that the door needs no ladder.

    ProxyError                    everything that we, not the worker, tell a client
    ├── BadRequest          400   the request cannot be read; the message says what to change
    ├── UnknownReply        400   feedback about a reply that this tenant was never given
    ├── Unauthorized        401   no key, or an unknown one
    ├── Forbidden           403   a door that is for the operator
    ├── ModelNotFound       404   no worker serves this model
    ├── NotFound            404   a path of our own name space that does not exist
    ├── ResponseGone        404   a stored response whose worker left or was restarted
    ├── Conflict            409   an order of the operator that would break something; the message says the way out
    ├── ReplyExpired        410   feedback about a reply of long ago
    ├── BodyTooLarge        413   more than settings allow
    ├── UpstreamFailed      502   workers were there, but died or broke before a whole answer
    ├── NoWorker            503   nobody is up for this model; Retry-After says when to come back
    ├── StoreAway           503   the store did not answer, and what was asked for needs it
    └── NotCached           504   only-if-cached, and nothing may be served (RFC 9111, 5.2.1.7)
        UpstreamTimedOut    504   the worker said nothing in time

An error that the worker itself answered is not one of these: it passes through unchanged.
"""

from typing import ClassVar


class ProxyError(Exception):
    """Told to the client in OpenAI's error envelope."""

    status: ClassVar[int] = 500
    type: ClassVar[str] = "api_error"
    code: ClassVar[str | None] = "internal_error"

    def __init__(self, message: str, *, param: str | None = None, retry_after_s: int | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.retry_after_s = retry_after_s


class BadRequest(ProxyError):
    status, type, code = 400, "invalid_request_error", None


class UnknownReply(ProxyError):
    status, type, code = 400, "invalid_request_error", "unknown_reply"


class ReplyExpired(ProxyError):
    status, type, code = 410, "invalid_request_error", "reply_expired"


class Unauthorized(ProxyError):
    status, type, code = 401, "invalid_request_error", "invalid_api_key"


class Forbidden(ProxyError):
    status, type, code = 403, "invalid_request_error", "forbidden"


class NotFound(ProxyError):
    status, type, code = 404, "invalid_request_error", "not_found"


class ResponseGone(ProxyError):
    status, type, code = 404, "invalid_request_error", "response_not_found"


class Conflict(ProxyError):
    status, type, code = 409, "invalid_request_error", "conflict"


class StoreAway(ProxyError):
    status, type, code = 503, "api_error", "store_unavailable"


class ModelNotFound(ProxyError):
    status, type, code = 404, "invalid_request_error", "model_not_found"


class BodyTooLarge(ProxyError):
    status, type, code = 413, "invalid_request_error", "request_too_large"


class UpstreamFailed(ProxyError):
    status, type, code = 502, "api_error", "worker_failed"


class NoWorker(ProxyError):
    status, type, code = 503, "api_error", "no_worker"


class NotCached(ProxyError):
    status, type, code = 504, "api_error", "not_cached"


class UpstreamTimedOut(ProxyError):
    status, type, code = 504, "api_error", "worker_timeout"
