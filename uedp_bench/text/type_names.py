"""Names of types of entities by kind: two names of one kind mean the same thing.

Labels and detectors name types differently (`PER`, `PERSON`), and draw borders differently (a town
is a `GPE` for OntoNotes and a `LOC` for CoNLL-2003). Scores that ask for the right type compare
kinds; what only asks whether something was found needs none of this.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

_NAMES: Mapping[str, str] = MappingProxyType({
    "person": "PERSON PER NAME NICKNAME SPOUSE CHILD PARENT",
    "place": "LOC LOCATION GPE FAC FACILITY CITY COUNTRY ADDRESS STREET_ADDRESS",
    "organisation": "ORG ORGANIZATION ORGANISATION COMPANY CORPORATION EDUCATION",
    "date": "DATE TIME DATETIME DATE_TIME BIRTHDATE",
    "group": "NORP NRP DEM NATIONALITY LANGUAGE",
    "quantity": "QUANTITY CARDINAL ORDINAL MONEY PERCENT AGE",
    "code": "CODE PII ID EMAIL EMAIL_ADDRESS PHONE PHONE_NUMBER URL DOMAIN_NAME IP IP_ADDRESS "
    "MAC_ADDRESS CREDIT_CARD CRYPTO IBAN IBAN_CODE SSN US_SSN US_ITIN US_PASSPORT US_BANK_NUMBER "
    "US_DRIVER_LICENSE US_NPI US_MBI UK_NHS UK_NINO MEDICAL_LICENSE",
})  # fmt: skip
"""Kind -> names of types of CoNLL-2003, OntoNotes 5 (spaCy), Presidio, TAB and the sources here."""


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.casefold())


_KIND = {_plain(name): kind for kind, names in _NAMES.items() for name in names.split()}


def kind_of_type(name: str, more: Mapping[str, str] | None = None) -> str:
    """The kind of a type; a type that nobody knows is a kind of its own, by its own name.

    Args:
        name: name of the type, in any case and with any separators.
        more: further names, of types or kinds, by name: `{"Applicant": "PERSON"}`.
    """
    plain = _plain(name)
    for alias, meaning in (more or {}).items():
        if _plain(alias) == plain:
            plain = _plain(meaning)
            break
    return _KIND.get(plain, plain)


def kinds_of_types(names: tuple[str, ...], more: Mapping[str, str] | None = None) -> list[str]:
    """Kinds of several types; see `kind_of_type`."""
    return [kind_of_type(name, more) for name in names]
