"""A language model behind an OpenAI-compatible server, asked by attacks about texts of people.

Text of private rows goes to addresses of this machine, unless the parameters name another host.
Answers are kept on disk under a digest of the question: an attack that was stopped repeats none.
"""

from __future__ import annotations

import hashlib
import http.client
import ipaddress
import json
import os
import re
import socket
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Self, TypeVar
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from uedp_bench.api import InputError, MayBePath, Metric, Params, UedpBenchError, equals
from uedp_bench.api.capabilities import published_of
from uedp_bench.api.statistics import fraction_estimate
from uedp_bench.errors import plain
from uedp_bench.io.files import FormError, file_text, parse
from uedp_bench.io.folders import cache_folder, write_atomically
from uedp_bench.text.pretrained import model_identity

if TYPE_CHECKING:
    from uedp_bench.api import Estimate, Release

_FORMAT = 1  # of the keys of answers; raised when an equal key would mean another question
_MOST_BYTES = 2**20
_MOST_CHARACTERS = 20_000
"""End of an answer in which its JSON object is looked for."""

_PATIENCE = 600.0
"""Seconds that an answer may take."""

_REPEATED = 20
"""One question of so many is asked twice."""

_AGAIN = "Reply with one JSON object of the form above, and nothing else."
_REFUSAL = re.compile(
    r"\b(?:sorry|(?:can(?:no|')?t|can not|unable to|won't|will not|not able to) \w+|as an ai)\b",
    re.IGNORECASE,
)
KEY = "UEDP_BENCH_LLM_KEY"
"""Environment variable with the key that `send_text_to` wants; it is stored nowhere."""

T = TypeVar("T")
Message = dict[str, str]

METRICS = (
    Metric.rate("unparsed_share", "unparsed", "share of the language model's answers that named "
                "nothing that was asked for, refusals included"),
    Metric.rate("answer_agreement", "agreement", "share of questions asked twice that the language "
                "model answered alike"),
)  # fmt: skip


class LanguageModelParams(Params):
    """Parameters of attacks that a language model can lead."""

    attacker: Literal["built-in", "llm"] = Field(
        default="built-in",
        exclude_if=equals("built-in"),
        description="llm: a language model behind an OpenAI-compatible server reads published text",
    )
    llm: Annotated[str, MayBePath()] = Field(
        default="",
        exclude_if=equals(""),
        description="the model's name at the server, which may be its folder",
    )
    server: str = Field(
        default="http://127.0.0.1:8000",
        exclude_if=equals("http://127.0.0.1:8000"),
        description="address of the server, before /v1/chat/completions",
    )
    send_text_to: str = Field(
        default="",
        exclude_if=equals(""),
        description="host of the server that may be sent text of private rows, where that is not "
        "this machine",
    )
    people: int = Field(
        default=100,
        ge=2,
        exclude_if=equals(100),
        description="people that the language model is asked about, at most",
    )
    characters: int = Field(
        default=8000,
        ge=100,
        exclude_if=equals(8000),
        description="characters of a person's text that the language model reads, at most",
    )
    answer_tokens: int = Field(
        default=300,
        ge=1,
        exclude_if=equals(300),
        description="tokens of the language model's answer, at most",
    )

    @model_validator(mode="after")
    def _one_attacker(self) -> Self:
        if self.attacker == "built-in":
            for name, about in LanguageModelParams.model_fields.items():
                if getattr(self, name) != about.default:
                    raise ValueError(f"{name} counts where attacker is 'llm': set that, too")
            return self
        if not self.llm:
            raise ValueError("llm is empty, and attacker is 'llm': name the model at the server")
        host = address_of(self.server)[1]
        if self.send_text_to and self.send_text_to.casefold() != host:
            raise ValueError(
                f"send_text_to is {self.send_text_to!r}, and the server's host is {host!r}: they "
                "must be equal"
            )
        if self.server.casefold().startswith("https:") and not self.send_text_to:
            raise ValueError("server: https is for the host that send_text_to names")
        return self


def unread(params: LanguageModelParams, release: Release) -> str | None:
    """The reason why a language model cannot read what was published; None if it need not."""
    published = published_of(release)
    if params.attacker == "built-in" or published is None or published.vectors is None:
        return None
    return "has attacker='llm', which reads text, and vectors were published"


def address_of(server: str) -> tuple[str, str, int, str]:
    """Scheme, host, port and path of a server.

    Raises:
        ValueError: for what is no plain address of HTTP.
    """
    form = f"server is {plain(server)!r}, not of the form http://HOST:PORT"
    try:
        parts = urlsplit(server)
        port = parts.port
    except ValueError:
        raise ValueError(form) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ValueError(form)
    if parts.query or parts.fragment or not re.fullmatch(r"[!-~]*", server):
        raise ValueError(form)
    path = parts.path.rstrip("/").removesuffix("/v1")
    return parts.scheme, parts.hostname, port or (443 if parts.scheme == "https" else 80), path


def check_destination(params: LanguageModelParams, attack: str) -> None:
    """Refuse a server to which no text of private rows may go.

    Raises:
        InputError: if its host is unknown, or has an address of another machine that
            `send_text_to` does not name.
    """
    _, host, port, _ = address_of(params.server)
    if params.send_text_to:
        return
    try:
        resolved = {str(entry[4][0]) for entry in socket.getaddrinfo(host, port)}
    except (OSError, UnicodeError) as error:
        raise InputError(f"{attack}.server: {plain(host)!r} has no address: {error}") from None
    for address in sorted(resolved):
        if not _is_loopback(address):
            raise InputError(
                f"{attack}.server: {plain(host)!r} is {address}, which is not this machine, and "
                "texts of private rows would leave it; allowed are addresses in 127.0.0.0/8 and "
                f"::1, or, if that host may have the texts, {attack}.send_text_to={plain(host)}"
            )


def _is_loopback(address: str) -> bool:
    return ipaddress.ip_address(address).is_loopback


class _LoopbackConnection(http.client.HTTPConnection):
    """Connects to this machine only: a name may have another address than a moment ago."""

    def connect(self) -> None:
        super().connect()
        peer = str(self.sock.getpeername()[0])
        if not _is_loopback(peer):
            self.close()
            raise UedpBenchError(f"{plain(self.host)!r} is {peer} now, which is not this machine")


class Answer(NamedTuple):
    """Reply of a language model.

    Attributes:
        text: of the reply.
        tokens: of question and reply, as the server counts them.
    """

    text: str
    tokens: int


@dataclass
class LanguageModel:
    """A language model that answers at temperature 0, and a record of what it was asked.

    Attributes:
        params: model, server and limits.
        seed: sent with every question.
        attack: named in messages.
        questions: asked for, repetitions not counted.
        requests: sent to the server, as others lay on disk.
        unparsed: questions without a usable answer, after one repetition.
        refusals: those of them whose answers read like a refusal.
        repeated, equal: questions asked twice, and those that were answered alike.
        tokens: of all questions and replies.
        seconds: waited for the server.
    """

    params: LanguageModelParams
    seed: int
    attack: str
    questions: int = 0
    requests: int = 0
    unparsed: int = 0
    refusals: int = 0
    repeated: int = 0
    equal: int = 0
    tokens: int = 0
    seconds: float = 0.0
    _model: str = field(init=False)

    def __post_init__(self) -> None:
        check_destination(self.params, self.attack)
        name = self.params.llm
        self._model = model_identity(name, "llm") if Path(name).is_dir() else name

    def ask(self, question: str, read: Callable[[dict[str, Any]], T | None]) -> T | None:
        """The usable part of the answer; None where two attempts have none.

        Args:
            question: sent as the one message of the user.
            read: what the last JSON object of an answer says; None if it says nothing usable.

        Raises:
            UedpBenchError: if the server does not answer as it should.
        """
        self.questions += 1
        messages = [{"role": "user", "content": question}]
        first = self._answer(messages)
        if self.questions % _REPEATED == 1:
            self.repeated += 1
            self.equal += self._answer(messages, repetition=1).text == first.text
        text = first.text
        for attempt in range(2):
            value = last_object(text)
            usable = None if value is None else read(value)
            if usable is not None:
                return usable
            if attempt == 0:
                messages += [{"role": "assistant", "content": text},
                             {"role": "user", "content": _AGAIN}]  # fmt: skip
                text = self._answer(messages).text
        self.unparsed += 1
        self.refusals += bool(_REFUSAL.search(first.text) or _REFUSAL.search(text))
        return None

    def metrics(self) -> dict[str, Estimate]:
        """Share of unparsed answers, and agreement of repeated ones."""
        if not self.questions:
            return {}
        return {
            "unparsed_share": fraction_estimate(self.unparsed, self.questions),
            "answer_agreement": fraction_estimate(self.equal, self.repeated),
        }

    def report(self) -> dict[str, Any]:
        """Counts of questions and answers, and where text was sent, as JSON values."""
        scheme, host, _, _ = address_of(self.params.server)
        sent_to = self.params.send_text_to
        return {
            "model": self.params.llm,
            "text_sent_to": f"{host}, by {scheme}" if sent_to else "this machine",
            "assumptions": [f"texts of private rows were sent to {host}"] if sent_to else [],
            **{name: getattr(self, name) for name in (
                "questions", "requests", "unparsed", "refusals", "repeated", "equal", "tokens"
            )},
            "seconds": round(self.seconds, 1),
        }  # fmt: skip

    def _answer(self, messages: Sequence[Message], repetition: int = 0) -> Answer:
        request = {
            "model": self.params.llm,
            "messages": [*messages],
            "temperature": 0,
            "max_tokens": self.params.answer_tokens,
            "seed": self.seed,
        }
        host = address_of(self.params.server)[1]
        named = request | {"model": self._model}
        key = json.dumps([_FORMAT, host, named, repetition], sort_keys=True).encode()
        file = cache_folder() / "answers" / f"{hashlib.sha256(key).hexdigest()}.json"
        answer = _stored(file)
        if answer is None:
            start = time.perf_counter()
            answer = self._post(json.dumps(request).encode())
            self.seconds += time.perf_counter() - start
            self.requests += 1
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(file, json.dumps(answer._asdict()), private=True)
            except OSError as error:
                warnings.warn(f"answers are not cached: {error}", stacklevel=2)
        self.tokens += answer.tokens
        return answer

    def _post(self, body: bytes) -> Answer:
        """Send a question; neither redirections nor proxies of the environment are followed."""
        scheme, host, port, path = address_of(self.params.server)
        kinds: dict[str, type[http.client.HTTPConnection]] = {
            "http": http.client.HTTPConnection, "https": http.client.HTTPSConnection
        }  # fmt: skip
        kind = kinds[scheme] if self.params.send_text_to else _LoopbackConnection
        headers = {"Content-Type": "application/json"}
        if self.params.send_text_to and (key := os.environ.get(KEY)):
            if not re.fullmatch(r"[!-~]+", key):  # http.client would repeat it in its message
                raise InputError(f"{KEY} has characters that no key has")
            headers["Authorization"] = f"Bearer {key}"
        connection = kind(host, port, timeout=_PATIENCE)
        name = plain(self.params.server)
        try:
            connection.request("POST", f"{path}/v1/chat/completions", body, headers)
            response = connection.getresponse()
            content = response.read(_MOST_BYTES + 1)
        except (OSError, http.client.HTTPException) as error:
            raise UedpBenchError(f"the language model at {name} does not answer: {error}") from None
        finally:
            connection.close()
        if response.status != 200:
            shown = plain(content[:300].decode(errors="replace"))
            raise UedpBenchError(f"the language model at {name} answers {response.status}: {shown}")
        answer = _completion(content)
        if answer is None:
            raise UedpBenchError(f"the answer of {name} is no chat completion")
        return answer


def _completion(content: bytes) -> Answer | None:
    """The reply that a server's answer holds; None where it holds none."""
    if len(content) > _MOST_BYTES:
        return None
    try:
        value = parse(content.decode()).value
        text = value["choices"][0]["message"]["content"] or ""
        tokens = (value.get("usage") or {}).get("total_tokens") or 0
        return Answer(text, max(0, int(tokens))) if isinstance(text, str) else None
    except (FormError, ValueError, LookupError, TypeError, AttributeError, OverflowError):
        return None


def _stored(file: Path) -> Answer | None:
    """The answer that a file keeps; None where there is none, or a damaged one."""
    if not file.is_file():
        return None
    try:
        value = parse(file_text(file)).value
        return Answer(str(value["text"]), int(value["tokens"]))
    except (FormError, LookupError, TypeError, ValueError, OverflowError):
        return None


def last_object(text: str) -> dict[str, Any] | None:
    """The last JSON object of a text that stands in no other; None where there is none."""
    text = text[-_MOST_CHARACTERS:]
    decoder, start, last = json.JSONDecoder(), text.find("{"), None
    while start >= 0:
        try:
            last, end = decoder.raw_decode(text, start)
        except (ValueError, RecursionError):
            end = start + 1
        start = text.find("{", end)
    return last


def excerpt(texts: Sequence[str], characters: int) -> str:
    """Texts of a person, one a line, cut after so many characters."""
    return "\n".join(" ".join(text.split()) for text in texts)[:characters]
