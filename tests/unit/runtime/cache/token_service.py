"""A token service as registries use them: Basic login in, a signed JSON Web Token for the asked scope out."""

import base64
import json
import time
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class TokenService:
    """Gives tokens to user `user` with password `secret`. `asked`: the scopes of each token given."""

    def __init__(self, folder: Path) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
        now = datetime.now(UTC)
        self._certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(self._key.public_key())
            .serial_number(1)
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=1))
            .sign(self._key, hashes.SHA256())
        )
        roots = folder / "roots.pem"
        roots.write_bytes(self._certificate.public_bytes(Encoding.PEM))
        self.asked: list[str] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                service._answer(self)

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        realm = f"http://127.0.0.1:{self._server.server_port}/token"
        self.config = (
            f'auth: {{token: {{realm: "{realm}", service: registry, issuer: tests, rootcertbundle: "{roots}"}}}}\n'
        )

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        login = base64.b64encode(b"user:secret").decode()
        if request.headers.get("Authorization") != f"Basic {login}":
            request.send_response(401)
            request.end_headers()
            return
        query = parse_qs(urlsplit(request.path).query)
        self.asked += query["scope"]
        body = json.dumps({"token": self._token(query["service"][0], query["scope"])}).encode()
        request.send_response(200)
        request.end_headers()
        request.wfile.write(body)

    def _token(self, service: str, scopes: list[str]) -> str:
        access = []
        for scope in " ".join(scopes).split():
            kind, name, actions = scope.split(":")
            access.append({"type": kind, "name": name, "actions": actions.split(",")})
        chain = [base64.b64encode(self._certificate.public_bytes(Encoding.DER)).decode()]
        now = int(time.time())
        claims = {"iss": "tests", "aud": service, "exp": now + 600, "nbf": now - 60, "iat": now, "access": access}
        parts = [
            _base64url(json.dumps(part).encode()) for part in ({"typ": "JWT", "alg": "ES256", "x5c": chain}, claims)
        ]
        signed = ".".join(parts)
        r, s = decode_dss_signature(self._key.sign(signed.encode(), ec.ECDSA(hashes.SHA256())))
        return f"{signed}.{_base64url(r.to_bytes(32, 'big') + s.to_bytes(32, 'big'))}"
