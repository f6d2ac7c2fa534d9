"""Addresses of the papers that components name as their source."""

from __future__ import annotations

import re

_PAPERS = {
    "Abadi et al. 2016": "https://arxiv.org/abs/1607.00133",
    "McMahan et al. 2018": "https://arxiv.org/abs/1710.06963",
    "Lai et al. 2022": "https://arxiv.org/abs/2211.01141",
    "Lyu, He, Li 2020": "https://arxiv.org/abs/2010.01285",
    "Coavoux, Narayan, Cohen 2018": "https://arxiv.org/abs/1808.09408",
    "Meehan, Mrini, Chaudhuri 2022": "https://arxiv.org/abs/2205.04605",
    "Feyisetan et al. 2020": "https://doi.org/10.1145/3336191.3371856",
    "Xu et al. 2020": "https://arxiv.org/abs/2010.11947",
    "Jana, Biemann 2021": "https://aclanthology.org/2021.privatenlp-1.4/",
    "Xu et al. 2021": "https://aclanthology.org/volumes/2021.privatenlp-1/",
    "Hathurusinghe, Nejadgholi, Bolic 2021": "https://aclanthology.org/volumes/2021.privatenlp-1/",
    "Adams, Melanson and De Cock 2021": "https://aclanthology.org/volumes/2021.privatenlp-1/",
    "Kim, Bisazza and Turkmen 2021": "https://aclanthology.org/volumes/2021.privatenlp-1/",
    "Knott et al. 2021": "https://arxiv.org/abs/2109.00984",
}
"""By how sources cite them; of the workshop, the volume that holds the paper."""

_ARXIV = re.compile(r"arXiv:(\d{4}\.\d{4,5})")


def papers(source: str) -> tuple[tuple[str, str], ...]:
    """The papers that a component's source names, in its order: (citation, address)."""
    found = [(source.index(name), name, url) for name, url in _PAPERS.items() if name in source]
    found += [
        (one.start(), one.group(0), f"https://arxiv.org/abs/{one.group(1)}")
        for one in _ARXIV.finditer(source)
    ]
    return tuple((name, url) for _, name, url in sorted(found))
