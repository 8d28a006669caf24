"""Responses of a route (status, content type and body), and error responses of one line."""

from http import HTTPStatus

from agent.support.safe_output import printable
from agent.web.http_request_handler import TEXT

Response = tuple[HTTPStatus, str, bytes]

NO_SUCH_TARGET: Response = (HTTPStatus.NOT_FOUND, TEXT, b"404 no such target\n")


def bad_request(why: str) -> Response:
    """Return status 400: the request is invalid."""
    return HTTPStatus.BAD_REQUEST, TEXT, f"400 {printable(why)}\n".encode()


def busy(why: str) -> Response:
    """Return status 429: the client should try again later."""
    return HTTPStatus.TOO_MANY_REQUESTS, TEXT, f"429 {why}, try again\n".encode()
