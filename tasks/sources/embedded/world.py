"""The invented world of the embedded corpus: pools of names, drawn once, with Zipf-like weights.

Faker gives the parts and numpy combines them. Phone numbers are from 555-01xx, which is reserved
for fiction in every area code, and mail domains are those that RFC 2606 reserves for examples.
"""

from __future__ import annotations

import datetime
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from faker import Faker

ENTITY_TYPES: tuple[str, ...] = (
    "PERSON", "ORG", "GPE", "LOC", "FAC", "DATE", "TIME", "MONEY", "PERCENT", "QUANTITY",
    "PRODUCT", "EVENT", "NORP", "LANGUAGE", "WORK_OF_ART", "PII",
)  # fmt: skip
"""Names of OntoNotes' types, and PII for phone numbers and e-mail addresses."""

REGIONS: tuple[str, ...] = ("north", "south", "east", "west")
DOMAINS = ("example.com", "example.org", "example.net")
ORG_KINDS = {
    "health": ("Clinic", "Hospital", "Pharmacy", "Dental Care", "Medical Center"),
    "travel": ("Airlines", "Travel", "Hotel", "Cruises", "Railways", "Hostel"),
    "work": ("Group", "Inc", "and Sons", "Consulting", "Holding", "Systems", "Logistics"),
    "food": ("Bakery", "Kitchen", "Farms", "Diner", "Bistro", "Foods"),
    "sport": ("United", "Rovers", "Athletic Club", "Wanderers", "Tigers", "Hawks"),
}
LOC_HEADS = ("Lake", "Mount", "Cape")
LOC_TAILS = ("River", "Valley", "Forest", "Bay", "Canyon", "Island", "Hills", "Falls")
FAC_TAILS = ("Bridge", "Airport", "Stadium", "Street", "Avenue", "Tower", "Hall", "Station", "Park")
EVENT_TAILS = ("Marathon", "Festival", "Cup", "Fair", "Open", "Parade", "Summit", "Games")
ART_HEADS = ("The Silent", "The Last", "Beyond the", "A Winter", "Songs of the", "The Glass")
ART_TAILS = ("Garden", "River", "Letter", "Harvest", "Mirror", "Voyage", "Orchard", "Lantern")
SYLLABLES = ("vel", "tro", "mi", "na", "qua", "zen", "lo", "rix", "fa", "do", "pu", "ster")
PHONES = 100 * (989 - 200)
"""Number of fictitious phone numbers."""
HOURS = (7, 8, 6, 9, 10, 5, 4, 3, 2, 11, 12, 1)
MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
NORP = (
    "Italian", "Norwegian", "Mexican", "Japanese", "Brazilian", "Polish", "Egyptian", "Canadian",
    "Vietnamese", "Greek", "Irish", "Kenyan", "Turkish", "Indian", "Buddhist",
    "Methodist", "Quaker",
)  # fmt: skip
LANGUAGES = (
    "Spanish", "French", "Portuguese", "German", "Arabic", "Hindi", "Korean", "Swahili", "Russian",
    "Dutch", "Swedish", "Finnish", "Mandarin", "Tagalog", "Welsh",
)  # fmt: skip


@dataclass(frozen=True)
class Pool:
    """Surfaces with the cumulative probabilities of being drawn."""

    surfaces: tuple[str, ...]
    cumulative: tuple[float, ...]

    @staticmethod
    def zipf(surfaces: Iterable[str], exponent: float = 1.0) -> Pool:
        """Distinct surfaces; that of rank r = 1, 2, ... in proportion to r^-exponent."""
        distinct = tuple(dict.fromkeys(surfaces))
        weights = (np.arange(len(distinct)) + 1.0) ** -exponent
        return Pool(distinct, tuple((np.cumsum(weights) / weights.sum()).tolist()))

    def pick(self, u: float) -> str:
        """The surface at a uniform number in [0, 1)."""
        return self.surfaces[min(bisect_right(self.cumulative, u), len(self.surfaces) - 1)]


@dataclass(frozen=True)
class World:
    """Everything that can be named.

    Attributes:
        first: given names, female and male.
        last: family names.
        cities: cities of each region, where authors live.
        known_cities: all cities, the large ones far ahead: what authors write about.
        orgs: organisations of each topic.
        pools: surfaces of all other types, by type.
    """

    first: tuple[Pool, Pool]
    last: Pool
    cities: dict[str, Pool]
    known_cities: Pool
    orgs: dict[str, Pool]
    pools: dict[str, Pool]


@lru_cache(maxsize=8)
def build_world(seed: int) -> World:
    """The world of a seed. Faker is slow by the call, so it is asked only here, once."""
    from faker import Faker

    fake = Faker("en_US")
    fake.seed_instance(seed)
    rng = np.random.default_rng([seed, 1])
    last = _frequent_first(fake.last_name, 4000)
    cities = _frequent_first(fake.city, 640)
    companies = _frequent_first(fake.company, 300)
    orgs = {
        topic: _compounds(rng, last, kinds, 200) + companies[i :: len(ORG_KINDS)]
        for i, (topic, kinds) in enumerate(ORG_KINDS.items())
    }
    return World(
        first=(
            Pool.zipf(_frequent_first(fake.first_name_female, 2000), 0.6),
            Pool.zipf(_frequent_first(fake.first_name_male, 2000), 0.6),
        ),
        last=Pool.zipf(last, 0.6),
        cities={name: Pool.zipf(cities[i::4], 0.8) for i, name in enumerate(REGIONS)},
        known_cities=Pool.zipf(cities, 1.1),
        orgs={topic: Pool.zipf(_spaced(names), 1.1) for topic, names in orgs.items()},
        pools=_pools(fake, rng, last, cities),
    )


def phone_numbers(seed: int) -> list[str]:
    """All fictitious numbers, 555-0100 to 555-0199 in area codes 200 to 988, shuffled."""
    drawn = np.random.default_rng([seed, 3]).permutation(PHONES).tolist()
    return [f"{200 + number // 100}-555-01{number % 100:02d}" for number in drawn]


def _pools(
    fake: Faker, rng: np.random.Generator, last: list[str], cities: list[str]
) -> dict[str, Pool]:
    parts = [*last[:300], *cities[:100]]
    coined = ["".join(rng.choice(SYLLABLES, 3)).capitalize() for _ in range(120)]
    lakes = [f"{rng.choice(LOC_HEADS)} {name}" for name in rng.permutation(last)[:60].tolist()]
    streets = _frequent_first(fake.street_name, 80)
    clock = [f"{hour}{minute} {half}" for minute in ("", ":30", ":15", ":45")
             for half in ("pm", "am") for hour in HOURS]  # fmt: skip
    amounts = rng.permutation([*range(5, 100, 5), *range(100, 1000, 50), *range(1000, 9999, 500)])
    return {
        "LOC": Pool.zipf(lakes + _compounds(rng, last, LOC_TAILS, 120)),
        "FAC": Pool.zipf(_compounds(rng, parts, FAC_TAILS, 160) + streets),
        "EVENT": Pool.zipf(_compounds(rng, parts, EVENT_TAILS, 120)),
        "WORK_OF_ART": Pool.zipf([f"{a} {b}" for a in ART_HEADS for b in ART_TAILS], 0.8),
        "PRODUCT": Pool.zipf(coined),
        "NORP": Pool.zipf(NORP),
        "LANGUAGE": Pool.zipf(LANGUAGES),
        "DATE": Pool.zipf(_dates(fake, 600), 0.5),
        "TIME": Pool.zipf(clock),
        "MONEY": Pool.zipf([f"$ {amount}" for amount in amounts.tolist()], 0.8),
        "PERCENT": Pool.zipf([f"{n} %" for n in (10, 20, 5, 50, 15, 25, 30, 3, 40, 12, 8, 75)]),
        "QUANTITY": Pool.zipf([f"{n} {unit}" for n in (5, 10, 3, 20, 2, 12, 8, 15, 30, 7)
                               for unit in ("miles", "pounds", "kilos")]),
    }  # fmt: skip


def _frequent_first(call: Callable[[], str], times: int) -> list[str]:
    """Distinct answers of Faker, the most frequent first, ties in order of appearance."""
    return [name for name, _ in Counter(call() for _ in range(times)).most_common()]


def _compounds(
    rng: np.random.Generator, heads: Sequence[str], tails: Sequence[str], count: int
) -> list[str]:
    """Names such as "Baker Bridge", of a random head and a random tail."""
    first, second = rng.integers(len(heads), size=count), rng.integers(len(tails), size=count)
    return [f"{heads[a]} {tails[b]}" for a, b in zip(first.tolist(), second.tolist(), strict=True)]


def _spaced(names: Iterable[str]) -> list[str]:
    """Names as tokens between single spaces: punctuation stands alone."""
    return [name.replace(",", " ,").replace("-", " - ") for name in names]


def _dates(fake: Faker, count: int) -> list[str]:
    """Days such as "March 14". The range is fixed: Faker's default ranges depend on today."""
    first, last = datetime.date(2023, 1, 1), datetime.date(2023, 12, 31)
    days = [fake.date_between_dates(first, last) for _ in range(count)]
    return [f"{MONTHS[day.month - 1]} {day.day}" for day in days]
