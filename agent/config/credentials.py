"""The sources of an account: a file, the environment or a my.cnf, read at every connect."""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path

from collectors.base import CollectorError, FailureKind
from collectors.connection import Login
from collectors.regular_file import read_whole

MAX_PASSWORD_LENGTH = 4096  # bytes of its file
MAX_MY_CNF_LENGTH = 2**20
ESCAPES = {
    "b": "\b",
    "t": "\t",
    "n": "\n",
    "r": "\r",
    "s": " ",
    "\\": "\\",
    '"': '"',
    "'": "'",
}


@dataclass(frozen=True, slots=True)
class Credentials:
    """The sources of one target's account; at most one of them gives the password."""

    user: str | None = None
    password_file: Path | None = None
    password_env: str | None = None
    defaults_file: Path | None = None
    environment: dict[str, str] | None = field(default=None, repr=False)

    def login(self) -> Login:
        """Read the account; a source that cannot be read raises `CollectorError`, login denied."""
        try:
            options = client_options(self.defaults_file) if self.defaults_file else {}
            user = self.user or options.get("user") or ""
            return Login(user, self._password(options))
        except (OSError, ValueError) as error:
            text = f"no password: {cause_of(error)}"
            raise CollectorError(FailureKind.DENIED, text) from None

    def _password(self, options: dict[str, str]) -> str:
        if self.password_file is not None:
            content = read_whole(self.password_file, MAX_PASSWORD_LENGTH)
            password = _strip_newline(content.decode("utf-8-sig"))
            if not password:
                raise ValueError(
                    f"{self.password_file}: the file is empty; write the password into it, or leave"
                    " password_file out if the account has none"
                )
            return password
        if self.password_env is not None:
            environment = os.environ if self.environment is None else self.environment
            if self.password_env not in environment:
                raise ValueError(
                    "the environment variable that password_env names is not set; set it for the"
                    " agent, or use password_file"
                )
            password = _strip_newline(environment[self.password_env])
            if not password:
                raise ValueError(
                    "the environment variable that password_env names is empty; set it for the"
                    " agent, or leave password_env out if the account has none"
                )
            return password
        return options.get("password", "")


def _strip_newline(text: str) -> str:
    """Remove the end of line that editors, `echo` and heredocs append."""
    return text.rstrip("\r\n")


def cause_of(error: OSError | ValueError) -> str:
    """Return the cause of an error, without a byte of what was read."""
    if isinstance(error, UnicodeError):
        return "not UTF-8 text"
    if isinstance(error, OSError):
        return f"{error.filename}: {error.strerror}" if error.filename else str(error)
    return str(error)


def client_options(path: Path) -> dict[str, str]:
    """Return the `[client]` group of a my.cnf, by option name with dashes.

    Quotes, escapes and comments are read as the server's own programs do: `#` starts a comment
    outside quotes only. https://dev.mysql.com/doc/refman/en/option-files.html

    Raises OSError, and UnicodeDecodeError if it is not UTF-8 text.
    """
    options: dict[str, str] = {}
    group = ""
    text = read_whole(path, MAX_MY_CNF_LENGTH).decode("utf-8-sig")
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        entry = line.strip()
        if not entry or entry[0] in "#;!":
            continue
        if entry.startswith("["):
            group = entry[1:].partition("]")[0].strip()
        elif group == "client":
            name, _, value = entry.partition("=")
            options[name.strip().replace("_", "-")] = option_value(value)
    return options


def option_value(text: str) -> str:
    """Return the value of an option as written, without comment, quotes and escapes."""
    text = _strip_comment(text).strip()
    if len(text) > 1 and text[0] in "'\"" and text[-1] == text[0]:
        text = text[1:-1]
    return re.sub(r"\\(.)", lambda found: ESCAPES.get(found[1], found[0]), text)


def _strip_comment(text: str) -> str:
    """Cut at the first `#` outside quotes; a quote inside a quoted value may be escaped."""
    quote = ""
    escaped = False
    for index, character in enumerate(text):
        if character in "'\"" and not escaped and quote in ("", character):
            quote = "" if quote else character
        elif character == "#" and not quote:
            return text[:index]
        escaped = bool(quote) and character == "\\" and not escaped
    return text
