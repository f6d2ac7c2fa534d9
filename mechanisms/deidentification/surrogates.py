"""Surrogates: for every type of entity a pool of invented surfaces, and a keyed choice from it."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from typing import Any

from uedp_bench.corpus import normal_surface

POOL_DRAWS = 2000
"""Draws from Faker per kind; a pool holds the distinct ones."""

_POOL_SEED = 20_230
"""Pools are public and always the same; what is secret is the key that chooses from them."""

_LAST = datetime(2025, 1, 1, tzinfo=UTC)
"""Dates and times are drawn before it: Faker would take the moment of the run."""

_DRAW: dict[str, Callable[[Any], str]] = {
    "person": lambda fake: f"{fake.first_name()} {fake.last_name()}",
    "place": lambda fake: str(fake.city()),
    "organisation": lambda fake: str(fake.company()),
    "date": lambda fake: str(fake.date(pattern="%d %B %Y", end_datetime=_LAST)),
    "time": lambda fake: str(fake.time(pattern="%H:%M", end_datetime=_LAST)),
    "phone": lambda fake: str(fake.numerify("555-###-####")),
    "email": lambda fake: str(fake.ascii_safe_email()),
    "url": lambda fake: str(fake.url()),
    "language": lambda fake: str(fake.language_name()),
    "percent": lambda fake: f"{fake.random_int(1, 99)} %",
    "money": lambda fake: f"$ {fake.random_int(1, 9999)}",
    "ordinal": lambda fake: f"{fake.random_int(11, 19) + 100 * fake.random_int(0, 99)}th",
    "number": lambda fake: str(fake.random_int(2, 9999)),
    "title": lambda fake: str(fake.catch_phrase()).title(),
}

_KINDS: dict[str, tuple[str, ...]] = {
    "person": ("person", "per", "name", "nickname"),
    "place": ("loc", "location", "gpe", "fac", "facility", "city", "country", "address"),
    "organisation": ("org", "organization", "organisation", "company"),
    "date": ("date", "datetime"),
    "time": ("time",),
    "phone": ("phone", "phonenumber"),
    "email": ("email", "emailaddress"),
    "url": ("url", "domainname"),
    "language": ("language", "norp", "nrp", "nationality"),
    "percent": ("percent",),
    "money": ("money",),
    "ordinal": ("ordinal",),
    "number": ("cardinal", "quantity", "ip", "ipaddress", "id", "creditcard", "usssn", "iban"),
}
_KIND_OF_TYPE = {name: kind for kind, names in _KINDS.items() for name in names}


def kind_of(entity_type: str, surface: str) -> str:
    """The kind of surrogate for a surface of a type.

    Types are those of spaCy, Presidio and CoNLL, in any spelling of case and separators. The type
    PII covers several kinds, so there the surface decides; types without a pool of their own
    (works of art, products, events, laws, miscellaneous) become invented titles.
    """
    plain = re.sub(r"[^a-z]", "", entity_type.lower())
    if plain != "pii":
        return _KIND_OF_TYPE.get(plain, "title")
    if "@" in surface:
        return "email"
    return "phone" if sum(map(str.isdigit, surface)) >= 5 else "person"


@cache
def pool(kind: str) -> tuple[str, ...]:
    """Distinct invented surfaces of a kind, tokenised by single spaces; equal in every run."""
    from faker import Faker

    fake = Faker("en_US")
    fake.seed_instance(_POOL_SEED)
    drawn = (_DRAW[kind](fake).replace(",", " ,") for _ in range(POOL_DRAWS))
    return tuple(dict.fromkeys(" ".join(surface.split()) for surface in drawn))


class Surrogates:
    """A keyed function from (type, normalised surface) to an invented surface of the same kind.

    It has no memory: what an entity becomes depends on the key and on the entity alone, never on
    the other rows, so that a differentially private stage after it keeps its unit. Two entities
    may share a surrogate; none is its own.

    Args:
        key: secret key of HMAC-SHA-256.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key

    def __call__(self, entity_type: str, surface: str) -> str:
        """The surrogate, in upper or lower case where the surface is."""
        plain = normal_surface(surface)
        choices = pool(kind_of(entity_type, surface))
        message = f"{entity_type}\0{plain}".encode("utf-8", "surrogatepass")
        digest = hmac.digest(self._key, message, hashlib.sha256)
        at = int.from_bytes(digest[:8], "big") % len(choices)
        if normal_surface(choices[at]) == plain:
            at = (at + 1) % len(choices)
        chosen = choices[at]
        if surface.isupper() and len(surface) > 1:
            return chosen.upper()
        return chosen.lower() if surface.islower() else chosen
