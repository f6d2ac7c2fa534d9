"""A language model as attacker: where text may go, what is asked twice, and what answers say."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import numpy as np
import pytest
from encoders import run_of

from uedp_bench.attacks._language_model import (
    KEY,
    LanguageModel,
    LanguageModelParams,
    check_destination,
    last_object,
)
from uedp_bench.attacks.reidentify.attack import Reidentify
from uedp_bench.attacks.reidentify.linking import Links, link_metrics
from uedp_bench.attacks.representations.attribute_inference import AttributeInference
from uedp_bench.attacks.representations.people import People, risks
from uedp_bench.contracts.leakage import Planted
from uedp_bench.contracts.release import PublishedOnly
from uedp_bench.corpus import Corpus
from uedp_bench.errors import InputError, UedpBenchError

OTHER_MACHINE = "192.0.2.7"
"""An address for documentation, which no machine has."""


class Judge:
    """A server on the loopback whose answer is a function of the question."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.status, self.location = 200, ""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def log_message(self, *parts: Any) -> None:
                pass

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                outer.bodies.append(body)
                outer.headers.append(dict(self.headers))
                self.send_response(outer.status)
                if outer.location:
                    self.send_header("Location", outer.location)
                self.end_headers()
                self.wfile.write(outer.content(body))

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        self.port = self._http.server_address[1]

    def content(self, body: dict[str, Any]) -> bytes:
        reply = {"message": {"role": "assistant", "content": self.reply(body["messages"])}}
        return json.dumps({"choices": [reply], "usage": {"total_tokens": 7}}).encode()

    def reply(self, messages: list[dict[str, str]]) -> str:
        return '{"value": 1}'

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()


@pytest.fixture
def judge(tmp_path, monkeypatch) -> Iterator[Judge]:
    monkeypatch.setenv("UEDP_BENCH_CACHE", str(tmp_path / "cache"))
    server = Judge()
    yield server
    server.close()


def params(server: Judge | str, **more: Any) -> LanguageModelParams:
    address = server if isinstance(server, str) else f"http://127.0.0.1:{server.port}"
    return LanguageModelParams(attacker="llm", llm="tiny", server=address, **more)


def model_of(server: Judge | str, **more: Any) -> LanguageModel:
    return LanguageModel(params(server, **more), 3, "reidentify")


def value(answer: dict[str, Any]) -> int | None:
    return answer.get("value")


@pytest.mark.parametrize(
    "server", [f"http://{OTHER_MACHINE}:1", "http://0.0.0.0:1", "http://[2001:db8::1]:1"]
)
def test_other_machines_get_no_text(server, make_corpus) -> None:
    with pytest.raises(InputError, match=r"reidentify\.server.*send_text_to"):
        check_destination(params(server), "reidentify")
    with pytest.raises(InputError, match=r"reidentify\.server"):
        model_of(server)
    attack = Reidentify.create({"attacker": "llm", "llm": "tiny", "server": server})
    with pytest.raises(InputError, match=r"reidentify\.server"):
        attack.plant(make_corpus(users=5), np.random.default_rng(0))


@pytest.mark.parametrize("server", ["http://127.0.0.1", "http://127.9.9.9:7", "http://[::1]:7/v1/"])
def test_addresses_of_this_machine_may_have_text(server) -> None:
    check_destination(params(server), "reidentify")


def test_a_name_is_judged_by_all_its_addresses(monkeypatch) -> None:
    answers = [(2, 1, 6, "", ("127.0.0.1", 80)), (2, 1, 6, "", (OTHER_MACHINE, 80))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *a, **k: answers)
    with pytest.raises(InputError, match=OTHER_MACHINE):
        check_destination(params("http://innocent.example"), "reidentify")


def test_a_name_that_moves_after_the_check_gets_no_text(judge, monkeypatch) -> None:
    model = model_of(judge)
    real = socket.socket.getpeername
    monkeypatch.setattr(socket.socket, "getpeername", lambda self: (OTHER_MACHINE, real(self)[1]))
    with pytest.raises(UedpBenchError, match=OTHER_MACHINE):
        model.ask("private", value)
    assert judge.bodies == []


def test_a_redirection_is_not_followed(judge) -> None:
    elsewhere = Judge()
    judge.status, judge.location = 307, f"http://127.0.0.1:{elsewhere.port}/v1/chat/completions"
    with pytest.raises(UedpBenchError, match="307"):
        model_of(judge).ask("private", value)
    assert elsewhere.bodies == []
    elsewhere.close()


def test_proxies_of_the_environment_are_not_used(judge, monkeypatch) -> None:
    proxy = Judge()
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.port}")
    monkeypatch.delenv("no_proxy", raising=False)
    assert model_of(judge).ask("private", value) == 1
    assert proxy.bodies == []
    assert judge.bodies
    proxy.close()


def test_send_text_to_must_name_the_server_and_is_reported(judge, monkeypatch) -> None:
    monkeypatch.setenv(KEY, "secret-key")
    assert model_of(judge).report()["text_sent_to"] == "this machine"
    model_of(judge).ask("private", value)
    assert "Authorization" not in judge.headers[-1]
    with pytest.raises(InputError, match=r"send_text_to.*127\.0\.0\.1"):
        Reidentify.create({"attacker": "llm", "llm": "x", "send_text_to": "lab.example"})
    model = model_of(judge, send_text_to="127.0.0.1")
    model.ask("another", value)
    assert judge.headers[-1]["Authorization"] == "Bearer secret-key"
    report = model.report()
    assert "127.0.0.1" in report["text_sent_to"]
    assert report["assumptions"] == ["texts of private rows were sent to 127.0.0.1"]
    assert "secret-key" not in json.dumps(report)
    monkeypatch.setenv(KEY, "secret\nkey")
    with pytest.raises(InputError) as caught:
        model.ask("a third", value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("llm", {"attacker": "llm"}),
        ("server", {"attacker": "llm", "llm": "x", "server": "file:///etc/passwd"}),
        ("server", {"attacker": "llm", "llm": "x", "server": "http://a@127.0.0.1"}),
        ("server", {"attacker": "llm", "llm": "x", "server": "http://127.0.0.1:x"}),
        ("server", {"attacker": "llm", "llm": "x", "server": "http://127.0.0.1/?a=\r\nb"}),
        ("https", {"attacker": "llm", "llm": "x", "server": "https://127.0.0.1"}),
        ("people", {"people": 7}),
        ("send_text_to", {"send_text_to": "lab.example"}),
    ],
)
def test_parameters_that_contradict_are_refused(field, values) -> None:
    for attack in (Reidentify, AttributeInference):
        with pytest.raises(InputError, match=field):
            attack.create(values)


def test_requests_hold_what_all_servers_know(judge) -> None:
    model_of(judge).ask("hello", value)
    assert judge.bodies[0] == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "hello"}],
        "temperature": 0,
        "max_tokens": 300,
        "seed": 3,
    }


def test_a_resumed_attack_asks_nothing_twice(judge, tmp_path) -> None:
    first, second = model_of(judge), model_of(judge)
    questions = [f"question {i}" for i in range(45)]
    assert [first.ask(each, value) for each in questions] == [1] * 45
    assert len(judge.bodies) == 45 + 3  # one of twenty is asked again
    assert [second.ask(each, value) for each in questions] == [1] * 45
    assert len(judge.bodies) == 48
    assert (second.requests, second.questions, second.tokens) == (0, 45, first.tokens)
    assert second.metrics() == first.metrics()
    assert first.metrics()["answer_agreement"].value == 1.0
    files = list((tmp_path / "cache" / "answers").iterdir())
    assert len(files) == 48
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)
    assert not any("question" in file.read_text() for file in files)
    files[0].write_text("damaged")
    model_of(judge).ask("question 0", value)
    for other in (model_of(judge, answer_tokens=9), LanguageModel(params(judge), 4, "reidentify")):
        before = len(judge.bodies)
        other.ask("question 1", value)
        assert len(judge.bodies) > before


def test_answers_that_differ_lower_the_agreement(judge) -> None:
    judge.reply = lambda messages: json.dumps({"value": len(judge.bodies)})
    model = model_of(judge)
    model.ask("hello", value)
    assert model.metrics()["answer_agreement"].value == 0.0


@pytest.mark.parametrize(
    ("text", "refusals"), [("I am sorry, but no.", 1), ("I can't help", 1), ('{"other": 1}', 0),
                           ('{"value": ', 0), ("", 0), ("[1]", 0)],
)  # fmt: skip
def test_an_answer_that_says_nothing_is_asked_again_and_counted(judge, text, refusals) -> None:
    judge.reply = lambda messages: text
    model = model_of(judge)
    assert model.ask("hello", value) is None
    assert [len(body["messages"]) for body in judge.bodies] == [1, 1, 3]
    assert (model.unparsed, model.refusals) == (1, refusals)
    assert model.metrics()["unparsed_share"].value == 1.0


def test_the_second_attempt_counts(judge) -> None:
    judge.reply = lambda messages: "well" if len(messages) == 1 else 'here: {"value": 2}'
    model = model_of(judge)
    assert model.ask("hello", value) == 2
    assert model.unparsed == 0


@pytest.mark.parametrize(
    "content",
    [b"", b"nonsense", b"[]", b"{}", b'{"choices": []}', b'{"choices": [{"message": 3}]}', b"\xff",
     b'{"choices": [{"message": {"content": 3}}]}', b"[" * 10_000, b" " * (2**20 + 1)],
)  # fmt: skip
def test_what_is_no_completion_is_an_error(judge, content) -> None:
    judge.content = lambda body: content
    with pytest.raises(UedpBenchError, match="no chat completion"):
        model_of(judge).ask("hello", value)


def test_a_server_that_is_gone_is_an_error(judge) -> None:
    model = model_of(judge)
    judge.close()
    with pytest.raises(UedpBenchError, match="does not answer"):
        model.ask("hello", value)


@pytest.mark.parametrize(
    ("text", "last"),
    [
        ('{"a": 1} then {"b": {"c": 2}} end', {"b": {"c": 2}}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('{ {"a": 1}', {"a": 1}),
        ('{"a":' * 50_000, None),
        ("no", None),
    ],
)
def test_the_last_object_of_an_answer_counts(text, last) -> None:
    assert last_object(text) == last


def test_risk_is_one_over_those_who_share_what_was_inferred_correctly() -> None:
    population = np.array([[0, 0], [0, 1], [0, 1], [1, 1], [1, -1]])
    people = People(("sex", "age"), np.arange(5), population, population)
    right = risks(population, people)
    assert right == pytest.approx([1, 1 / 2, 1 / 2, 1, 1 / 2])
    nothing = np.full_like(population, -1)
    assert risks(nothing, people) == pytest.approx([1 / 5] * 5)
    wrong = np.array([[1, 0], [1, 0], [0, 0], [1, 0], [0, 0]])
    assert risks(wrong, people) == pytest.approx([1, 1 / 5, 1 / 3, 1 / 2, 1 / 5])


def test_the_confidence_needed_is_fixed_on_other_people() -> None:
    rng = np.random.default_rng(0)
    correct = rng.random(4000) < 0.5
    sure = np.where(correct, 0.9, 0.2)
    metrics = link_metrics(Links(correct, correct, sure), "", rng)
    assert metrics["recall_at_90_precision"].value == pytest.approx(0.5, abs=0.05)
    blind = Links(correct, correct, np.full(4000, 0.7))
    assert link_metrics(blind, "", rng)["recall_at_90_precision"].value == 0.0
    abstains = Links(np.zeros(9, bool), np.zeros(9, bool), np.full(9, -1.0))
    assert link_metrics(abstains, "_x", rng)["recall_at_90_precision_x"].value == 0.0


def people_corpus(make_corpus) -> Corpus:
    """Everybody's texts name their sex; the people of the train split have one each."""
    corpus = make_corpus(users=40, rows=4)
    sex = corpus.users % 2
    texts = [
        f"{'she' if code == 0 else 'he'} {text}"
        for code, text in zip(sex, corpus.texts, strict=True)
    ]
    return replace(corpus.with_texts(texts), attributes={"sex": sex},
                   attribute_names={"sex": ("female", "male")})  # fmt: skip


def published(corpus: Corpus) -> PublishedOnly:
    return PublishedOnly().showing(published=corpus)


def reads_pronouns(messages: list[dict[str, str]]) -> str:
    words = messages[0]["content"].partition("Guess")[0].split()
    gender = "female" if "she" in words else "male" if "he" in words else "unknown"
    return json.dumps({"sex": [gender]})


def test_attributes_of_people_are_read_from_published_text(judge, make_corpus) -> None:
    judge.reply = reads_pronouns
    corpus = people_corpus(make_corpus)
    values = {"attacker": "llm", "llm": "tiny", "server": f"http://127.0.0.1:{judge.port}",
              "people": 30}  # fmt: skip
    attack = AttributeInference.create(values)
    assert attack.required_capabilities() != attack.needs
    planted, secret = attack.plant(corpus, np.random.default_rng(1))
    train = corpus.only("train")
    open_text = attack.run(published(train), secret, planted, run_of(1))
    assert open_text.metrics["accuracy_sex"].value == 1.0
    assert open_text.metrics["reidentification_risk"].value == pytest.approx(1 / 20)
    assert open_text.metrics["reidentification_risk_chance"].value == pytest.approx(1 / 40)
    assert open_text.metrics["unparsed_share"].value == 0.0
    hidden = train.with_texts([text.split(" ", 1)[1] for text in train.texts])
    closed = attack.run(published(hidden), secret, planted, run_of(1))
    majority = closed.metrics["majority_sex"].value
    assert closed.metrics["accuracy_sex"].value == majority < 0.8
    assert closed.metrics["accuracy_sex_unprotected"].value == 1.0
    assert closed.metrics["unparsed_share"].value == 0.5
    assert closed.metrics["reidentification_risk"].value == pytest.approx(1 / 40)
    assert closed.details["attributes"]["sex"]["unanswered"] == 30
    nothing = attack.run(published(train.with_texts([""] * len(train))), secret, planted, run_of(1))
    assert nothing.details["not_published"] == 30
    assert nothing.metrics["accuracy_sex"].value == majority
    vectors = published(train.with_vectors(np.zeros((len(train), 2))))
    assert "vectors" in attack.refuses(vectors, corpus)
    requests, rare = len(judge.bodies), np.where(corpus.users < 2, corpus.users, -1)
    corpus = replace(corpus, attributes={**corpus.attributes, "rare": rare},
                     attribute_names={**corpus.attribute_names, "rare": ("a", "b")})  # fmt: skip
    with pytest.raises(InputError, match=r"attribute-inference\.people.*'rare'"):
        AttributeInference.create(values | {"people": 2}).run(
            published(train), secret, corpus, run_of(1)
        )
    assert len(judge.bodies) == requests


def test_people_are_linked_by_what_they_wrote(judge, make_corpus) -> None:
    def reply(messages: list[dict[str, str]]) -> str:
        mark = next(w for w in messages[0]["content"].split() if w.startswith("author"))
        rest = messages[0]["content"].partition("[1]")[2]
        place = rest[: rest.find(mark)].count("\n[") + 1 if mark in rest else 0
        return json.dumps({"author": place, "confidence": 0.95})

    judge.reply = reply
    corpus = make_corpus(users=30, rows=4)
    texts = [f"author{u}x {text}" for u, text in zip(corpus.users, corpus.texts, strict=True)]
    corpus = corpus.with_texts(texts)
    values = {"attacker": "llm", "llm": "tiny", "server": f"http://127.0.0.1:{judge.port}"}
    attack, plain = Reidentify.create(values), Reidentify.create({})
    train = corpus.only("train")
    linked = attack.run(published(train), Planted(), corpus, run_of(1))
    built_in = plain.run(published(train), Planted(), corpus, run_of(1))
    assert linked.metrics.items() >= built_in.metrics.items()
    for name in ("recall_at_1_llm", "recall_at_1_llm_unprotected", "recall_at_90_precision"):
        assert linked.metrics[name].value > 0.9
    first_requests = len(judge.bodies)
    assert attack.run(published(train), Planted(), corpus, run_of(1)).metrics == linked.metrics
    assert len(judge.bodies) == first_requests
