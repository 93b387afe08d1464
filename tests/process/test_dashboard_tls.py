"""The dashboard with a certificate: other machines may reach it then, and clients check whom they talk to."""

from __future__ import annotations

import datetime
import ipaddress
import re
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.process.standing import Node


def certificate(folder: Path) -> tuple[str, str]:
    """Write a certificate of 127.0.0.1 that has signed itself; return its path and that of its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test")])
    now, day = datetime.datetime.now(datetime.timezone.utc), datetime.timedelta(days=1)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now - day).not_valid_after(now + day)
    names = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    builder = builder.add_extension(names, critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    paths = folder / "cert.pem", folder / "key.pem"
    paths[0].write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    paths[1].write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    )
    return str(paths[0]), str(paths[1])


def test_other_machines_reach_it_with_a_certificate(node: Node, tmp_path: Path) -> None:
    cert, key = certificate(tmp_path)
    flags = ("--include-dashboard", "true", "--dashboard-port", "0", "--dashboard-host", "0.0.0.0")
    banner = node.start(*flags, "--dashboard-tls-cert", cert, "--dashboard-tls-key", key, "--jobs")
    found = re.search(r"https://0\.0\.0\.0:(\d+)/#token=(\S+)", banner)
    assert found is not None, banner
    url, token = f"https://127.0.0.1:{found[1]}", {"RAY_AUTH_TOKEN": found[2]}
    unknown = node.command("list", "nodes", "--address", url, check=False, **token)
    assert unknown.returncode == 1 and "CERTIFICATE_VERIFY_FAILED" in unknown.stderr
    listed = node.command("list", "nodes", "--address", url, SSL_CERT_FILE=cert, **token)
    assert "ALIVE" in listed.stdout
    plain = node.command("list", "nodes", "--address", url.replace("https", "http"), check=False, **token)
    assert plain.returncode != 0
    job = node.command("job", "submit", "--address", url, "--verify", cert, "--", "echo", "by TLS", **token)
    assert "\nby TLS\n" in job.stdout and "succeeded" in job.stdout
    config = node.command("metrics", "config").stdout
    assert cert in config
    targets = (node.folder / "prom_metrics_service_discovery.json").read_text()
    assert '"__scheme__": "https"' in targets


def test_a_certificate_that_cannot_be_read_is_named(node: Node, tmp_path: Path) -> None:
    _, key = certificate(tmp_path)
    missing = str(tmp_path / "missing.pem")
    said = node.command(
        "start", "--head", "--num-cpus=1", "--include-dashboard=1", "--dashboard-port=0",
        f"--dashboard-tls-cert={missing}", f"--dashboard-tls-key={key}",
    )  # fmt: skip
    assert "missing.pem" in said.stderr and "No such file" in said.stderr
