"""`uedp-bench data`: what a corpus holds, and its rows for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uedp_bench.cli.console import AsJson, PluginFiles, console, print_json
from uedp_bench.errors import InputError
from uedp_bench.spec.settings import parse_setting

if TYPE_CHECKING:
    from uedp_bench.corpus import Corpus

app = typer.Typer(rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def root(context: typer.Context) -> None:
    """Look at data sets."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@app.command("describe")
def describe_command(
    source: Annotated[str, typer.Argument(help="Name of a source (uedp-bench list sources).")],
    path: Annotated[
        Path | None, typer.Option("--path", help="The source's parameter `path`.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Another parameter of the source."),
    ] = None,
    detector: Annotated[
        str | None,
        typer.Option(
            "--detector",
            metavar="NAME",
            help="Measure a detector of entities (spacy or presidio) by the source's own labels: "
            "recall and precision by type.",
        ),
    ] = None,
    pipeline: Annotated[
        str | None,
        typer.Option("--pipeline", metavar="NAME", help="spaCy pipeline of the detector."),
    ] = None,
    layer: Annotated[
        str | None,
        typer.Option(
            "--layer",
            metavar="NAME",
            help="Measure a layer by the layer gold: precision, recall and F1 of its spans.",
        ),
    ] = None,
    plugin: PluginFiles = None,
    as_json: AsJson = False,
) -> None:
    """Rows, users, entities, sensitive rows by type and the spread of entities, by split.

    \b
    uedp-bench data describe embedded
    uedp-bench data describe conll2003 --path data/conll2003 --set entity_types=[PER] --json
    uedp-bench data describe conll2003 --path data/conll2003 --detector presidio
    uedp-bench data describe tab --path data/tab --layer automatic
    """  # noqa: D301
    from uedp_bench.components.component import parse_params
    from uedp_bench.components.registry import load_plugins, sources
    from uedp_bench.corpus.entity_detection import DetectionParams
    from uedp_bench.statistics import annotation_agreement
    from uedp_bench.text import detection
    from uedp_bench.text.describe_data import describe, tables
    from uedp_bench.text.type_names import kinds_of_types

    load_plugins(plugin or [])
    values: dict[str, Any] = dict(_parameter(text) for text in settings or [])
    if path is not None:
        values["path"] = path
    options = {"detector": detector, "pipeline": pipeline}
    chosen = {name: value for name, value in options.items() if value is not None}
    params = parse_params(DetectionParams, chosen, "data describe")
    corpus = sources.create(source, values).load()
    description = describe(corpus, source)
    detected = None
    if detector is not None and isinstance(params, DetectionParams):
        detected = detection.detector_of(corpus, params)
    agreed = (
        None
        if layer is None
        else annotation_agreement.agreement(corpus, layer, kinds=kinds_of_types)
    )
    if as_json:
        measured = {} if detected is None else {"detection": {**chosen, **detected.to_dict()}}
        if agreed is not None:
            measured["agreement"] = {"layer": layer, **agreed.to_dict()}
        print_json({**description.to_dict(), **measured})
        return
    out = console()
    for table in tables(description):
        out.print(table)
    if detected is not None:
        for table in detection.tables(detected, " ".join(chosen.values())):
            out.print(table)
    if agreed is not None and layer is not None:
        for table in annotation_agreement.tables(agreed, layer):
            out.print(table)


@app.command("export")
def export_command(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE|SPEC",
            help="Name of a source (uedp-bench list sources), or a YAML spec: then with what its "
            "attacks plant.",
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="A new file to write: .jsonl or .csv.")
    ],
    path: Annotated[
        Path | None, typer.Option("--path", help="The source's parameter `path`.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the source, or the spec."),
    ] = None,
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Seed of the run whose attacks plant.")
    ] = 1,
    plugin: PluginFiles = None,
) -> None:
    """Write the private rows with their ids, for a tool that sanitises them elsewhere.

    Give that tool this file, and what it makes of it to the mechanism sanitized-elsewhere. The run
    must have the same source, and where a spec was given, the same attacks and seed: they say
    which row has which id. Columns: id, split, user, text.

    \b
    uedp-bench data export embedded --out rows.jsonl
    uedp-bench data export text --path mail.csv --set user_column=sender --out rows.csv
    uedp-bench data export mail.yaml --seed 1 --out rows.jsonl
    """  # noqa: D301
    from uedp_bench.components.registry import load_plugins, sources
    from uedp_bench.corpus.row_files import write_rows

    load_plugins(plugin or [])
    if source.endswith((".yaml", ".yml")):
        if path is not None:
            raise InputError("--path: of a spec, say --set source.path=PATH")
        corpus = _planted(source, settings or [], seed)
    else:
        values: dict[str, Any] = dict(_parameter(text) for text in settings or [])
        if path is not None:
            values["path"] = path
        corpus = sources.create(source, values).load()
    written = write_rows(corpus, out)
    console().print(f"{written:,} rows written to {out}", markup=False, highlight=False)


def _planted(spec: str, settings: list[str], seed: int) -> Corpus:
    """The corpus of a spec's run with this seed, with what its attacks plant."""
    from uedp_bench.one_run.components import build
    from uedp_bench.one_run.planting import load_data, plant
    from uedp_bench.spec.grid import expand
    from uedp_bench.spec.spec import Ref, apply_setting, parse_spec
    from uedp_bench.spec.spec_files import read_spec

    wanted = parse_spec(read_spec(spec))
    for text in settings:
        wanted = apply_setting(wanted, *parse_setting(text))
    # The mechanism has no say in what is planted, and its file is not there yet.
    run, *others = expand(
        wanted.model_copy(update={"mechanisms": [[Ref(name="noiseless")]], "seeds": [seed]})
    )
    same = {"source", "attacks", "clients"}
    if any(other.model_dump(include=same) != run.model_dump(include=same) for other in others):
        raise InputError(
            f"{spec} stands for runs with different rows: give one value for each parameter of the "
            "source and the attacks"
        )
    parts = build(run)
    return plant(parts.attacks, parts.sources, load_data(parts.sources), seed, run.clients).corpus


def _parameter(text: str) -> tuple[str, Any]:
    path, value = parse_setting(text)
    name = path[1:] if path[0] == "source" and len(path) > 1 else path
    if len(name) != 1:
        raise InputError(f"--set {text}: a parameter of a source is a plain name")
    return name[0], value
