"""A client of a running agent, whose answers are JSON objects."""

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from typing import Any

from agent.support.errors import InputError
from agent.support.http_client import (
    REFUSED_LOGIN_STATUSES,
    Access,
    AccessError,
    NoAnswerError,
    UntrustedError,
    read_answer,
    read_refusal,
    refusal_text,
)
from agent.support.safe_output import printable

MAX_BYTES = 2**24
"""The limit of one answer."""
MAX_TEXT_LENGTH = 400
"""Bytes of a refusal that are read and shown."""
FIELD = re.compile(r"([a-z_]+): ")
"""How a refusal begins that names a field of the request; each is an option of the command."""


class AgentError(AccessError):
    """The agent cannot be reached, or its answer is not valid; one line with the remedy."""


class RefusedError(InputError):
    """The agent refuses the request; the message is the agent's, one line."""


class AgentClient:
    """A client of one agent; raises `AccessError` if the URL is not valid."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._url = access.base("http://HOST:10104")
        self._timeout = access.timeout
        self._headers = access.authorisation()
        self._opener = access.opener()

    def request(
        self, path: str, fields: Sequence[tuple[str, str]], method: str = "GET"
    ) -> dict[str, Any]:
        """Send a request and return the answer; raises `AgentError` or `RefusedError`."""
        url = f"{self._url}{path}?{urllib.parse.urlencode(fields)}"
        request = urllib.request.Request(  # noqa: S310  (checked by `Access.base`)
            url, headers=self._headers, method=method
        )
        try:
            found = json.loads(read_answer(self._opener, request, self._timeout, MAX_BYTES))
        except urllib.error.HTTPError as error:
            content = read_refusal(error, MAX_TEXT_LENGTH)
            raise self._refusal(error.code, content, request) from None
        except UntrustedError as error:
            raise AgentError(f"{self._url}: {self._access.untrusted_text(error)}") from None
        except AccessError as error:
            raise AgentError(f"{self._url}: {error}") from None
        except NoAnswerError as error:
            remedy = "start the agent, or name it with --agent"
            raise AgentError(f"{self._url}: no answer ({error}); {remedy}") from None
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise AgentError(f"{self._url}: this is not a valid answer of an agent; check the URL")
        return found

    def _refusal(self, code: int, content: bytes, request: urllib.request.Request) -> Exception:
        text = printable(content.decode(errors="replace").strip())
        if code in REFUSED_LOGIN_STATUSES:
            is_given = self._access.has_login
            remedy = f"{'check' if is_given else 'give'} --user with --password-file"
            return AgentError(f"{self._url}: {refusal_text(code, request, remedy)}")
        if code == 404 and "target" in text:
            return RefusedError("--target: the agent watches no such target; its page lists them")
        if code == 400:
            return RefusedError(_with_option(text.removeprefix("400 ")))
        if code in (421, 429):
            return AgentError(f"{self._url}: {text.partition(' ')[2]}")
        remedy = "check the agent's log, or its proxy" if code >= 500 else "check the URL"
        return AgentError(f"{self._url}: HTTP status {code}; {remedy}")


def _with_option(text: str) -> str:
    """Return the message with the option in place of the field of that name."""
    field = FIELD.match(text)
    return f"--{field[1].replace('_', '-')}{text[field.end(1) :]}" if field else text
