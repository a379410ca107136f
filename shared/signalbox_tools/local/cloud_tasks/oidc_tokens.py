"""OIDC tokens of tasks, signed as Google signs them, with a key that this server generated.

The key is generated at the first start and stored, so a token survives a restart. The public key is served in
the two forms in which Google publishes its own: a JSON Web Key Set, and PEM by key id (what `google.auth.jwt.decode`
takes).
"""

import base64
import hashlib
from dataclasses import dataclass

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth import crypt, jwt

ISSUER = "https://accounts.google.com"
LIFETIME_SECONDS = 3600
RENEW_SECONDS = 600
"""The time for which a token is reused: signing takes as long as several deliveries."""

CACHE_MAX = 1000


def new_private_key() -> bytes:
    """Generate an RSA key, as PEM."""
    return rsa.generate_private_key(public_exponent=65537, key_size=2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


@dataclass(frozen=True, slots=True)
class PublicKey:
    key_id: str
    pem: str
    modulus: int
    exponent: int

    def jwk(self) -> dict[str, str]:
        modulus, exponent = _base64url(self.modulus), _base64url(self.exponent)
        return {"kty": "RSA", "alg": "RS256", "use": "sig", "kid": self.key_id, "n": modulus, "e": exponent}


class Identity:
    """Signs tokens with one private key (PEM)."""

    def __init__(self, private_pem: bytes) -> None:
        self.public = _public_key(private_pem)
        self._signer = crypt.RSASigner.from_string(private_pem, self.public.key_id)
        self._tokens: dict[tuple[str, str], tuple[float, str]] = {}

    def token(self, account: str, audience: str, now: float) -> str:
        """Return a token of `account` for `audience`, valid for at least 50 minutes."""
        made_at, token = self._tokens.get((account, audience), (0.0, ""))
        if not token or now - made_at >= RENEW_SECONDS:
            token = self._sign(account, audience, int(now))
            if len(self._tokens) >= CACHE_MAX:
                self._tokens.clear()
            self._tokens[account, audience] = (now, token)
        return token

    def jwks(self) -> dict[str, list[dict[str, str]]]:
        return {"keys": [self.public.jwk()]}

    def certs(self) -> dict[str, str]:
        return {self.public.key_id: self.public.pem}

    def _sign(self, account: str, audience: str, now: int) -> str:
        claims = {
            "iss": ISSUER,
            "aud": audience,
            "azp": account,
            "sub": account,
            "email": account,
            "email_verified": True,
            "iat": now,
            "exp": now + LIFETIME_SECONDS,
        }
        return str(jwt.encode(self._signer, claims).decode())


def _public_key(private_pem: bytes) -> PublicKey:
    private = serialization.load_pem_private_key(private_pem, password=None)
    assert isinstance(private, rsa.RSAPrivateKey), "the kept key is one that new_private_key made"
    public = private.public_key()
    pem = public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    numbers = public.public_numbers()
    return PublicKey(hashlib.sha256(pem).hexdigest()[:40], pem.decode(), numbers.n, numbers.e)


def _base64url(number: int) -> str:
    octets = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return base64.urlsafe_b64encode(octets).rstrip(b"=").decode()
