"""The web configuration: what is accepted, that every mistake is listed, and what a change does."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from error_lines import mistakes
from web_clients import Authority, password_hash, saying, written

from agent.config.base_model import Section
from agent.web.config import (
    TLS12_SUITES,
    Headers,
    HttpServerConfig,
    TlsServerConfig,
    WebConfig,
)
from agent.web.reloading_config import load_web_config

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs" / "web.md"
HASH = password_hash("hunter2")
TLS = {"cert_file": "server.crt", "key_file": "server.key"}


def problems(path: Path) -> list[str]:
    """What is wrong with the file, without its name."""
    return mistakes(load_web_config, path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a certificate of the server and two authorities."""
    Authority(tmp_path).issue("server", "127.0.0.1")
    Authority(tmp_path, "clients")
    return tmp_path


@pytest.fixture
def example(folder: Path) -> Path:
    """The example beside the files that it names."""
    return Path(shutil.copy(ROOT / "docs/examples/web-config.yml", folder / "web.yml"))


def test_the_example_is_accepted_as_it_stands(example: Path) -> None:
    """An operator may copy the example and put the files beside it."""
    web = load_web_config(example)
    assert web.protections == {"TLS", "client certificates", "users"}


def test_prometheus_own_tool_accepts_the_example(example: Path, promtool: str) -> None:
    """The format is the one that Prometheus and its exporters share."""
    check = [promtool, "check", "web-config", str(example)]
    done = subprocess.run(check, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


def test_every_mistake_is_listed_at_once_with_its_line_and_key(folder: Path) -> None:
    """One look at the message is enough to mend the whole file."""
    path = saying(
        folder,
        f"""\
tls_server_config:
  cert_file: server.crt
  key_file: no.key
  client_auth_type: RequireAnyClientCert
  client_allowed_sans: [3]
  min_version: TLS10
  max_version: SSL3
  cipher_suites:
    - TLS_RSA_WITH_RC4_128_SHA
  curve_preferences: [X25519, CurveP256]
  certfile: x
http_server_config:
  http2: maybe
  headers:
    X-Frame-Options: allow
    Server: x
basic_auth_users:
  alice: hunter2
  "a:b": {HASH}
  bob: {HASH.replace("$04$", "$17$")}
rate_limit: {{}}
""",
    )
    assert problems(path) == [
        "3: tls_server_config.key_file: cannot be read: No such file or directory; check the path"
        " and its permissions",
        "4: tls_server_config.client_auth_type: accepts any certificate; use"
        " RequireAndVerifyClientCert",
        "5: tls_server_config.client_allowed_sans[0]: must be text",
        "6: tls_server_config.min_version: TLS 1.0 and 1.1 are not supported; use 'TLS12' or"
        " 'TLS13'",
        "7: tls_server_config.max_version: must be 'TLS12' or 'TLS13'",
        "8: tls_server_config.cipher_suites: has no TLS 1.2 suite; add one,"
        " or set min_version: TLS13",
        "9: tls_server_config.cipher_suites[0]: not a supported cipher suite"
        " (docs/web.md lists them)",
        "10: tls_server_config.curve_preferences: only one curve is supported; give one, or"
        " remove the key",
        "11: tls_server_config.certfile: unknown key; did you mean cert_file or client_ca_file?",
        "13: http_server_config.http2: must be true or false",
        "15: http_server_config.headers.X-Frame-Options: must be 'deny', 'sameorigin' or ''",
        "16: http_server_config.headers.Server: unknown key; the keys here are"
        " Content-Security-Policy, X-Frame-Options, X-Content-Type-Options, X-XSS-Protection,"
        " Strict-Transport-Security",
        "18: basic_auth_users.alice: is not a bcrypt hash (docs/web.md shows how to make one)",
        "19: basic_auth_users.a:b: must be a user name without a colon",
        "20: basic_auth_users.bob: has a bcrypt cost above 15: each check would take seconds",
        "21: rate_limit: unknown key; the keys here are tls_server_config, http_server_config,"
        " basic_auth_users",
    ]


@pytest.mark.parametrize(
    ("tls", "expected"),
    [
        ({"cert_file": "server.crt"}, "key_file: missing"),
        ({}, "cert_file: missing"),
        ({**TLS, "key_file": "ca.crt"}, "key_file: contains no PEM private key"),
        ({**TLS, "cert_file": "server.key"}, "cert_file: contains no PEM certificate"),
        ({**TLS, "cert_file": "ca.crt"}, "key_file: is not the key of cert_file"),
        ({**TLS, "cert_file": "."}, "cert_file: cannot be read: Is a directory; check the path"),
        ({**TLS, "cert_file": "a\0"}, "cert_file: is not a valid"),
        ({**TLS, "client_auth_type": "RequireAndVerifyClientCert"}, "client_ca_file: missing"),
        ({**TLS, "client_auth_type": "VerifyClientCertIfGiven"}, "client_ca_file: missing"),
        ({**TLS, "client_ca_file": "ca.crt"}, "client_ca_file: has no effect"),
        ({**TLS, "client_allowed_sans": ["a"]}, "client_allowed_sans: needs client_auth_type"),
        ({**TLS, "min_version": "TLS13", "max_version": "TLS12"}, "max_version: is below"),
        (
            {**TLS, "client_auth_type": "VerifyClientCertIfGiven", "client_ca_file": "server.key"},
            "client_ca_file: contains no PEM certificate",
        ),
    ],
)
def test_ineffective_tls_settings_are_refused(
    folder: Path, tls: dict[str, object], expected: str
) -> None:
    """Nothing in force is weaker than it is written."""
    found = problems(written(folder, tls_server_config=tls))
    assert any(re.match(rf"\d+: tls_server_config.{re.escape(expected)}", p) for p in found), found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing\n",
        "- a\n",
        "http2: true\n",
        "tls_server_config:\n",
        "http_server_config:\n",
        "basic_auth_users:\n",
        "basic_auth_users: {}\n",
        "basic_auth_users: [a]\n",
    ],
)
def test_a_truncated_file_is_refused(tmp_path: Path, text: str) -> None:
    """An editor's half-written file is no configuration without protection."""
    assert problems(saying(tmp_path, text))


@pytest.mark.parametrize(
    "text",
    [
        f'basic_auth_users: {{"{HASH}": alice}}',
        f'basic_auth_users: {{alice: "{HASH[:-1]}"}}',
        f'basic_auth_users: {{"{HASH}": "{HASH}", "{HASH}": "{HASH}"}}',
        f"basic_auth_users: {HASH}",
        f"{HASH}: 1",
        f"basic_auth_users: {{alice: *{HASH[7:]}}}",
        f"basic_auth_users: {{alice: !{HASH[7:]} x}}",
        f"basic_auth_users: {{alice: !!int '{HASH}'}}",
        f"basic_auth_users: {{alice: !!bool '{HASH}'}}",
        f"basic_auth_users: {{alice: '{HASH}'",
        f'tls_server_config: {{min_version: "{HASH}", cert_file: "{HASH}", key_file: ["{HASH}"]}}',
    ],
)
def test_no_message_shows_a_hash(tmp_path: Path, text: str) -> None:
    """Wherever in the file it was written."""
    said = "\n".join(problems(saying(tmp_path, text)))
    assert HASH[7:20] not in said


def test_no_repr_shows_a_hash(folder: Path) -> None:
    """A traceback or a log may contain it."""
    web = load_web_config(written(folder, basic_auth_users={"alice": HASH}))
    assert web.config.basic_auth_users == {"alice": HASH}
    assert not any(text in repr(web) + str(web.config) for text in ("alice", HASH[7:20]))


def test_a_header_value_must_be_one_line(folder: Path) -> None:
    """A value with a line feed would begin another header."""
    headers = {"Content-Security-Policy": "default-src 'self'\n"}
    assert problems(written(folder, http_server_config={"headers": headers})) == [
        "3: http_server_config.headers.Content-Security-Policy: must be one line of ASCII"
        " characters"
    ]


def test_paths_are_relative_to_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever the agent was started."""
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    path = written(folder, tls_server_config=TLS)
    assert load_web_config(path).files == (path, folder / "server.crt", folder / "server.key")


def test_an_encrypted_key_is_refused_without_a_prompt(folder: Path) -> None:
    """The daemon has no terminal."""
    key = folder / "server.key"
    plain = serialization.load_pem_private_key(key.read_bytes(), None)
    how = serialization.BestAvailableEncryption(b"secret")
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    key.write_bytes(plain.private_bytes(*form, how))
    (problem,) = problems(written(folder, tls_server_config=TLS))
    assert "contains no PEM private key without a password" in problem


def test_every_key_is_documented() -> None:
    """docs/web.md has each key, each header and each cipher suite."""
    text = DOCS.read_text()
    sections: tuple[type[Section], ...] = (WebConfig, TlsServerConfig, HttpServerConfig)
    keys = {key for section in sections for key in section.__struct_fields__}
    keys |= set(Headers.__struct_encode_fields__) | set(TLS12_SUITES)
    assert {key for key in keys if f"`{key}`" not in text} == set()
