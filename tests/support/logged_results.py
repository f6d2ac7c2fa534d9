"""A finished result with a bit of everything, to be logged."""

from __future__ import annotations

import math

from uedp_bench.accounting.guarantee import Guarantee
from uedp_bench.contracts.results import ComponentSpec, Cost, Estimate, Result, RunSpec


def result_of(identifier, **more):
    def guarantee(kind, epsilon, **extra):
        values = {"unit": "user", "adjacency": "add-or-remove", "delta": 1e-5, "accountant": "pld"}
        return Guarantee(kind=kind, epsilon=epsilon, **{**values, **extra})

    values = {
        "group": "g",
        "status": "finished",
        "spec": RunSpec(
            task=ComponentSpec(name="next-word", params={"lowercase": True}),
            source=ComponentSpec(name="embedded", params={"users": 7}),
            model=ComponentSpec(name="lstm-small"),
            mechanism=(
                ComponentSpec(name="deidentify", params={"style": "remove"}),
                ComponentSpec(name="user-dp", params={"rounds": 3, "clip": 0.1}),
            ),
            attacks=(ComponentSpec(name="membership", params={"held_out": 0.1}),),
            seed=4,
        ),
        "utility": {"perplexity": Estimate(value=50.0, low=49.0, high=51.0)},
        "leakage": {"membership": {"tpr_at_0.1pct_fpr": Estimate(value=0.25)}},
        "guarantees": (
            guarantee("proven", 7.5),
            guarantee("claimed", math.inf, unit="entity"),
            guarantee("proven", math.inf, unit="user-entity", status="refused"),
        ),
        "series": {"train_loss": [(1, 3.0), (2, 2.0), (3, 1.5)]},
        "diagnostics": {"signal_to_noise": math.inf, "clipped": 0.5, "words": "no number"},
        "cost": Cost(train_seconds=2.0),
        "provenance": {"created": "2024-05-01T00:00:00+00:00"},
    }
    return Result(id=identifier, **{**values, **more})


def files_of(client, run_id, path=None):
    return {entry.path for entry in client.list_artifacts(run_id, path)}


def models_of(client, run_id):
    outputs = client.get_run(run_id).outputs
    outputs_logged = outputs.model_outputs if outputs else []
    return [client.get_logged_model(one.model_id) for one in outputs_logged]


def runs_of(client, identifier):
    experiment = client.get_experiment_by_name("tests").experiment_id
    return client.search_runs([experiment], f"tags.`uedp_bench.id` = '{identifier}'")
