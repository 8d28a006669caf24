"""Responses of a page: status, content type and body; refusals of one line."""

from http import HTTPStatus

from agent.support.safe_output import printable
from agent.web.wsgi_handler import TEXT

Response = tuple[HTTPStatus, str, bytes]

NO_SUCH_TARGET: Response = (HTTPStatus.NOT_FOUND, TEXT, b"404 no such target\n")


def bad_request(why: str) -> Response:
    """400: the question is wrong."""
    return HTTPStatus.BAD_REQUEST, TEXT, f"400 {printable(why)}\n".encode()


def busy(why: str) -> Response:
    """429: not now."""
    return HTTPStatus.TOO_MANY_REQUESTS, TEXT, f"429 {why}, try again\n".encode()
