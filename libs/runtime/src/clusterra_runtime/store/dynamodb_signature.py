"""Signature Version 4 of requests to DynamoDB, with the signing key of a day kept.

botocore derives the key and builds a canonical request of any service anew for every request, which took a fifth of a
request's CPU time. All requests of this package are a POST to one path, with the same few headers.
"""

import hashlib
import hmac
from datetime import datetime
from typing import NamedTuple

_ALGORITHM = "AWS4-HMAC-SHA256"
_SERVICE = "dynamodb"


class Credentials(NamedTuple):
    """The credentials of one moment. Their text form names no secret."""

    access_key: str
    secret_key: str
    token: str | None

    def __repr__(self) -> str:
        return f"Credentials({self.access_key})"


class Signer:
    """Signs the requests to one endpoint. `host` is its name, with the port unless it is the protocol's own."""

    def __init__(self, region: str, host: str, path: str) -> None:
        self._region = region
        self._host = host
        self._path = path
        self._derived: tuple[str, str, bytes] = ("", "", b"")
        """The date, the secret key and the signing key made from them."""

    def headers(self, operation: str, body: bytes, credentials: Credentials, at: datetime) -> dict[str, str]:
        """The headers of a signed request. `operation` is DynamoDB's name for it, such as `GetItem`; `at` is in UTC."""
        moment = f"{at:%Y%m%dT%H%M%SZ}"
        date = moment[:8]
        headers = {
            "content-type": "application/x-amz-json-1.0",
            "host": self._host,
            "x-amz-date": moment,
            **({"x-amz-security-token": credentials.token} if credentials.token else {}),
            "x-amz-target": f"DynamoDB_20120810.{operation}",
        }
        # In the order of their names, as the canonical request has them.
        names = ";".join(headers)
        lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
        canonical = f"POST\n{self._path}\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
        scope = f"{date}/{self._region}/{_SERVICE}/aws4_request"
        to_sign = f"{_ALGORITHM}\n{moment}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
        signature = hmac.digest(self._key(date, credentials.secret_key), to_sign.encode(), "sha256").hex()
        headers["authorization"] = (
            f"{_ALGORITHM} Credential={credentials.access_key}/{scope}, SignedHeaders={names}, Signature={signature}"
        )
        return headers

    def _key(self, date: str, secret_key: str) -> bytes:
        if self._derived[:2] != (date, secret_key):
            key = f"AWS4{secret_key}".encode()
            for part in (date, self._region, _SERVICE, "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._derived = date, secret_key, key
        return self._derived[2]
