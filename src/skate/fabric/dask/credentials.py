"""The token of a cluster, and the certificates that every process derives from it.

Each process derives the same key of a certificate authority (HKDF, RFC 5869) and signs a certificate for itself, so that a process
with the token can join, and nobody else: TLS 1.3, with certificates required on both sides. A certificate lets
one try guesses of the token offline, so short tokens are refused.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import secrets
import ssl
import string
import tempfile
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from distributed.security import Security

CONTEXT = b"skate cluster ca v1"
#: The order of the group of P-256 (FIPS 186-4, D.1.2.3).
P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
TOKEN_BITS = 256
TOKEN_BITS_MIN = 128
#: A random token has more; "aaaa..." has one.
DISTINCT_CHARACTERS_MIN = 8
LEAF_LIFETIME = datetime.timedelta(days=30)
#: A certificate is renewed when less than this is left of it.
RENEWAL_MARGIN = datetime.timedelta(days=10)
#: Clocks of machines differ: a certificate is valid from a day before it is made.
CLOCK_SLACK = datetime.timedelta(days=1)
# The same in every process: without a signature, certificates of one token are equal.
CA_FROM = datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)
CA_UNTIL = datetime.datetime(2120, 1, 1, tzinfo=datetime.timezone.utc)
DEFAULT_TOKEN_PATH = "~/.skate/token"


def find_token(path: str | None = None) -> str | None:
    """Return the token of the cluster, or None if there is none.

    Looks at `path`, the environment (SKATE_AUTH_TOKEN, SKATE_AUTH_TOKEN_PATH, RAY_AUTH_TOKEN, RAY_AUTH_TOKEN_PATH), and
    ~/.skate/token, in this order.

    Raises:
        ValueError: a file that is named does not exist, is not readable, or is empty.
    """
    if path is not None:
        return _token_in(path, "the token file")
    for prefix in ("SKATE", "RAY"):
        if token := os.environ.get(f"{prefix}_AUTH_TOKEN", "").strip():
            return token
        variable = f"{prefix}_AUTH_TOKEN_PATH"
        if named := os.environ.get(variable):
            return _token_in(named, f"the token file of {variable}")
    if os.path.exists(os.path.expanduser(DEFAULT_TOKEN_PATH)):
        return _token_in(DEFAULT_TOKEN_PATH, "the token file")
    return None


def _token_in(path: str, what: str) -> str:
    try:
        token = Path(path).expanduser().read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ValueError(f"{what}, {path}, cannot be read: {reason}") from None
    if not token:
        raise ValueError(f"{what}, {path}, is empty")
    return token


def make_token(path: str | os.PathLike[str]) -> str:
    """Write a new token to a file that only its owner can read. Raises FileExistsError if there is one."""
    token = secrets.token_hex(TOKEN_BITS // 8)
    os.makedirs(os.path.dirname(os.path.abspath(path)), mode=0o700, exist_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(token + "\n")
    return token


def check_strength(token: str) -> None:
    """Raise ValueError for a token that can be guessed."""
    bits = len(token) * (4 if set(token) <= set(string.hexdigits) else 6)
    if bits < TOKEN_BITS_MIN or len(set(token)) < DISTINCT_CHARACTERS_MIN:
        raise ValueError(
            f"the token of the cluster is too weak for a network port: it has {len(token)} characters, of which "
            f"{len(set(token))} differ, but {TOKEN_BITS_MIN} random bits are required (22 characters of base64 or 32 "
            "hexadecimal digits); make one with `openssl rand -hex 32`"
        )


class RenewableSecurity(Security):  # type: ignore[misc]
    """Dask's settings of TLS; remembers the contexts made from them, so that a new certificate reaches all."""

    contexts: weakref.WeakSet[ssl.SSLContext]

    def get_connection_args(self, role: str) -> dict[str, Any]:
        """Return the arguments for opening a connection."""
        return self._remember(super().get_connection_args(role))

    def get_listen_args(self, role: str) -> dict[str, Any]:
        """Return the arguments for listening."""
        return self._remember(super().get_listen_args(role))

    def _remember(self, arguments: dict[str, Any]) -> dict[str, Any]:
        self.contexts.add(arguments["ssl_context"])
        return arguments


class Credentials:
    """The certificates of one process. Raises ValueError if the token is too weak.

    Attributes: security (for Dask), expires (of the certificate).
    """

    def __init__(self, token: str) -> None:
        check_strength(token)
        self._ca_key = _derived_key(token)
        self._ca = _authority(self._ca_key)
        key, certificate = self._leaf()
        roles = ("client", "scheduler", "worker")
        self.security = RenewableSecurity(
            require_encryption=True,
            tls_min_version=ssl.TLSVersion.TLSv1_3,
            tls_ca_file=_pem(self._ca),
            **{f"tls_{role}_key": key for role in roles},
            **{f"tls_{role}_cert": certificate for role in roles},
        )
        self.security.contexts = weakref.WeakSet()

    def renew_if_due(self) -> None:
        """Renew the certificate when little of its lifetime is left."""
        if self.expires - _now() < RENEWAL_MARGIN:
            self.renew()

    def renew(self) -> None:
        """Replace the certificate, also for new connections of what listens and dials already."""
        key, certificate = self._leaf()
        for role in ("client", "scheduler", "worker"):
            setattr(self.security, f"tls_{role}_key", key)
            setattr(self.security, f"tls_{role}_cert", certificate)
        with tempfile.TemporaryDirectory(prefix="skate-") as folder:  # readable by its owner alone
            both = Path(folder, "certificate.pem")
            both.write_text(key + certificate)
            for context in list(self.security.contexts):
                context.load_cert_chain(both)

    def _leaf(self) -> tuple[str, str]:
        """Return a new key and its certificate."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = _now()
        self.expires = now + LEAF_LIFETIME
        builder = (
            x509.CertificateBuilder()
            .subject_name(_name("skate node"))
            .issuer_name(self._ca.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - CLOCK_SLACK)
            .not_valid_after(self.expires)
        )
        for extension, critical in _leaf_extensions(key, self._ca_key):
            builder = builder.add_extension(extension, critical=critical)
        certificate = builder.sign(self._ca_key, hashes.SHA256())
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return private.decode(), _pem(certificate)


def _leaf_extensions(
    key: ec.EllipticCurvePrivateKey, ca_key: ec.EllipticCurvePrivateKey
) -> Iterator[tuple[x509.ExtensionType, bool]]:
    yield x509.BasicConstraints(ca=False, path_length=None), True
    yield _key_usage(digital_signature=True), True
    yield x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), False
    yield x509.SubjectAlternativeName([x509.DNSName("skate-node")]), False
    yield x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False
    yield x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), False


def _derived_key(token: str) -> ec.EllipticCurvePrivateKey:
    """Derive the key of the authority; 128 bits more than needed make the remainder even."""
    seed = HKDF(algorithm=hashes.SHA256(), length=48, salt=None, info=CONTEXT).derive(token.encode())
    return ec.derive_private_key(int.from_bytes(seed, "big") % (P256_ORDER - 1) + 1, ec.SECP256R1())


def _authority(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    """Return the certificate of the authority: in every process the same but for its signature."""
    public = key.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    name = _name("skate cluster")
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(int.from_bytes(hashlib.sha256(public).digest()[:16], "big") | 1)
        .not_valid_before(CA_FROM)
        .not_valid_after(CA_UNTIL)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(key_cert_sign=True, crl_sign=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )


def _key_usage(**allowed: bool) -> x509.KeyUsage:
    uses = (
        "digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement",
        "key_cert_sign", "crl_sign", "encipher_only", "decipher_only",
    )  # fmt: skip
    return x509.KeyUsage(**{use: allowed.get(use, False) for use in uses})


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc)
