"""PyMySQL as the collectors load it."""

import subprocess
import sys

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

PASSWORD, SALT = b"Tr0ub4dor+3", b"twenty bytes of salt"
PROGRAM = f"""
import sys
from concurrent.futures import ThreadPoolExecutor
import collectors.connection
from pymysql import _auth
assert "cryptography" not in sys.modules
key = sys.stdin.buffer.read()
with ThreadPoolExecutor(4) as pool:
    for sent in pool.map(lambda _: _auth.sha2_rsa_encrypt({PASSWORD!r}, {SALT!r}, key), range(4)):
        print(sent.hex())
"""


def test_cryptography_is_loaded_when_a_login_needs_it() -> None:
    """Not before; a server with that key's other half reads the password, of every login."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    public = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    command = [sys.executable, "-c", PROGRAM]
    told = subprocess.run(command, input=public, capture_output=True, check=True).stdout.split()
    oaep = padding.OAEP(padding.MGF1(hashes.SHA1()), hashes.SHA1(), None)
    for sent in told:
        read = key.decrypt(bytes.fromhex(sent.decode()), oaep)
        assert bytes(a ^ b for a, b in zip(read, SALT, strict=False)) == PASSWORD + b"\0"
    assert len(told) == 4
