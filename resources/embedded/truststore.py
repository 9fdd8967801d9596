"""The certificates this machine trusts, in the form Java reads.

The Java from PyPI brings its own list and knows nothing of a company's or a container's; Python
follows the machine, so we ask Python and write them down for Java.
"""

import hashlib
import ssl
import struct
from pathlib import Path

MAGIC, VERSION, TRUSTED = 0xFEEDFEED, 2, 2
# A key store ends with a digest salted like this; it guards against damage, not against anybody.
SALT = "changeit".encode("utf-16-be") + b"Mighty Aphrodite"


def write_truststore(path: Path) -> bool:
    """Write the machine's certificates to `path`; return False if it has none."""
    certificates = ssl.create_default_context().get_ca_certs(binary_form=True)
    body = struct.pack(">III", MAGIC, VERSION, len(certificates))
    for number, certificate in enumerate(certificates):
        body += struct.pack(">I", TRUSTED) + _text(f"machine{number}") + struct.pack(">Q", 0)
        body += _text("X.509") + struct.pack(">I", len(certificate)) + certificate
    path.write_bytes(body + hashlib.sha1(SALT + body, usedforsecurity=False).digest())
    return bool(certificates)


def _text(value: str) -> bytes:
    encoded = value.encode()
    return struct.pack(">H", len(encoded)) + encoded
