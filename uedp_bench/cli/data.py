"""`uedp-bench data`, `init` and `plant`: corpora, own files and canaries."""

from __future__ import annotations

import math
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from uedp_bench.cli.console import AsJson, PluginFiles, console, echo, print_json
from uedp_bench.errors import InputError

if TYPE_CHECKING:
    from uedp_bench.corpus import Corpus
    from uedp_bench.first_spec.column_roles import Role
    from uedp_bench.first_spec.first_spec import FirstSpec

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
            help="Measure a detector of entities (names, spacy or presidio) by the source's own "
            "labels: recall and precision by type.",
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
    from uedp_bench.statistics import label_scores
    from uedp_bench.text import detection
    from uedp_bench.text.describe_data import describe, tables
    from uedp_bench.text.detection import kinds_of_types

    load_plugins(plugin or [])
    values = _parameters(settings, path)
    options = {"detector": detector, "pipeline": pipeline}
    chosen = {name: value for name, value in options.items() if value is not None}
    params = parse_params(DetectionParams, chosen, "data describe")
    corpus = sources.create(source, values).load()
    description = describe(corpus, source)
    detected = None
    if detector is not None and isinstance(params, DetectionParams):
        detected = detection.detector_of(corpus, params)
    agreed = None if layer is None else label_scores.agreement(corpus, layer, kinds=kinds_of_types)
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
        for table in label_scores.tables(agreed, layer):
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
    from uedp_bench.corpus.stable_names import write_rows

    load_plugins(plugin or [])
    if source.endswith((".yaml", ".yml")):
        if path is not None:
            raise InputError("--path: of a spec, say --set source.path=PATH")
        corpus = _planted(source, settings or [], seed)
    else:
        corpus = sources.create(source, _parameters(settings, path)).load()
    written = write_rows(corpus, out)
    console().print(f"{written:,} rows written to {out}", markup=False, highlight=False)


def _planted(spec: str, settings: list[str], seed: int) -> Corpus:
    """The corpus of a spec's run with this seed, with what its attacks plant."""
    from uedp_bench.contracts.results import UNPROTECTED
    from uedp_bench.one_run.components import build
    from uedp_bench.one_run.planting import load_data, plant
    from uedp_bench.spec.grid import expand
    from uedp_bench.spec.spec import Ref, apply_setting, parse_setting, parse_spec, read_spec

    wanted = parse_spec(read_spec(spec))
    for text in settings:
        wanted = apply_setting(wanted, *parse_setting(text))
    # The mechanism has no say in what is planted, and its file is not there yet.
    run, *others = expand(
        wanted.model_copy(update={"mechanisms": [[Ref(name=UNPROTECTED)]], "seeds": [seed]})
    )
    same = {"source", "attacks", "clients"}
    if any(other.model_dump(include=same) != run.model_dump(include=same) for other in others):
        raise InputError(
            f"{spec} stands for runs with different rows: give one value for each parameter of the "
            "source and the attacks"
        )
    parts = build(run)
    return plant(parts.attacks, parts.sources, load_data(parts.sources), seed, run.clients).corpus


def _parameters(settings: list[str] | None, path: Path | None) -> dict[str, Any]:
    """Parameters of a source."""
    from uedp_bench.spec.spec import parse_setting

    values: dict[str, Any] = {}
    for text in settings or ():
        dotted, value = parse_setting(text)
        name = dotted[1:] if dotted[0] == "source" and len(dotted) > 1 else dotted
        if len(name) != 1:
            raise InputError(f"--set {text}: a parameter of a source is a plain name")
        values[name[0]] = value
    return values if path is None else {**values, "path": path}


Text = Annotated[str | None, typer.Option("--text", metavar="COLUMN", help="Column with the text.")]
User = Annotated[
    str | None,
    typer.Option("--user", metavar="COLUMN", help="Who wrote a row; none: every row its own."),
]
Label = Annotated[
    str | None, typer.Option("--label", metavar="COLUMN", help="The class of a row, or none.")
]
Spans = Annotated[
    str | None,
    typer.Option("--spans", metavar="COLUMN", help="Entities: {start, end, type}, or none."),
]
Split = Annotated[
    str | None, typer.Option("--split", metavar="COLUMN", help="train, valid, test; or none.")
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        "--delimiter", metavar="SIGN", help="Between fields of csv or tsv; tab for a tab."
    ),
]
QuotingName = Annotated[
    str | None,
    typer.Option("--quoting", metavar="NAME", help="standard, or none: quotes are text."),
]
TaskName = Annotated[
    str | None,
    typer.Option("--task", metavar="NAME", help="next-word, text-classification or tagging."),
]
PublicText = Annotated[
    list[Path] | None,
    typer.Option(
        "--public", metavar="FILE", help="Text that anybody may see, a sentence a line (repeat)."
    ),
]
Epsilons = Annotated[
    str,
    typer.Option(
        "--epsilon",
        metavar="E,...",
        help="Proven epsilons of private mechanisms, a row of the table each.",
    ),
]
SpecFile = Annotated[
    Path | None,
    typer.Option("--out", metavar="SPEC.yaml", help="Where to write. [default: ./NAME.yaml]"),
]
Force = Annotated[bool, typer.Option("--force", help="Write over a file that is there.")]


def init_command(
    path: Annotated[Path, typer.Argument(metavar="PATH", help="Your file, or a folder.")],
    task: TaskName = None,
    text: Text = None,
    user: User = None,
    label: Label = None,
    spans: Spans = None,
    split: Split = None,
    delimiter: Delimiter = None,
    quoting: QuotingName = None,
    public: PublicText = None,
    epsilon: Epsilons = "8",
    out: SpecFile = None,
    force: Force = False,
) -> None:
    """Look at a file of your own, and write a spec that runs on it.

    It reads csv, tsv, jsonl, json, parquet, plain text a line, files with a token and its tag a
    line, and folders that a source knows; encoding, delimiter and columns are guessed, and every
    guess is printed with the option that says otherwise.

    \b
      uedp-bench init mail.csv
      uedp-bench init chat.jsonl --text message.text --user from.id
      uedp-bench init reviews.tsv --task text-classification --label stars
      uedp-bench init mail.csv --epsilon 1,4,8
    """  # noqa: D301
    from uedp_bench.first_spec.first_spec import first_spec

    data = (path, *(public or ()))
    target = out or Path(f"{path.name.partition('.')[0] or path.resolve().name}.yaml")
    if target.exists() and any(read.exists() and target.samefile(read) for read in data):
        raise InputError(f"--out {target}: is the data that is read; choose another file")
    if target.exists() and not force:
        raise InputError(f"{target} is there already: --force writes over it, --out FILE elsewhere")
    folder = f"runs/{target.stem}"
    # A command line takes a name that begins with a dash for an option.
    name = f"./{target}" if str(target).startswith("-") else str(target)
    spec = first_spec(
        path,
        columns_by_role(text, user, label, spans, split),
        task=task,
        public=tuple(public or ()),
        epsilons=targets(epsilon),
        layout=layout_of(delimiter, quoting),
    )
    written = spec.text((name, folder))
    print_proposal(spec)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(written, encoding="utf-8")
    except OSError as error:
        raise InputError(f"--out {target} cannot be written: {error.strerror}") from None
    command = f"uedp-bench run {shlex.quote(name)} --out {shlex.quote(folder)}"
    names = ", ".join(part.title for part in spec.suggestion.mechanisms)
    echo(f"wrote {target}: {names}; seeds 1, 2, 3")
    echo(f"next: {command} --dry-run    what would happen, and how long it takes")
    echo(f"      {command}")


def columns_by_role(
    text: str | None, user: str | None, label: str | None, spans: str | None, split: str | None
) -> dict[Role, str]:
    """The columns that were named, by role."""
    named: dict[Role, str | None] = {
        "text": text, "user": user, "label": label, "entities": spans, "split": split,
    }  # fmt: skip
    return {role: name for role, name in named.items() if name is not None}


def layout_of(delimiter: str | None, quoting: str | None) -> dict[str, str]:
    """Delimiter and quoting that were named.

    Raises:
        InputError: for a delimiter of several signs, or another quoting.
    """
    sign = {"tab": "\t", "\\t": "\t"}.get(delimiter or "", delimiter)
    if sign is not None and len(sign) != 1:
        raise InputError(f"--delimiter {delimiter!r}: give one sign, such as ';', or tab")
    if quoting not in (None, "standard", "none"):
        raise InputError(f"--quoting {quoting!r}: allowed are standard, none")
    named = {"delimiter": sign, "quoting": quoting}
    return {name: value for name, value in named.items() if value is not None}


def print_proposal(spec: FirstSpec) -> None:
    """Print facts of the file, and guesses."""
    for head, lines in (("found", spec.facts), ("guessed", spec.guesses)):
        echo(head)
        for line in lines:
            echo(f"  {line}")


def targets(text: str) -> list[float]:
    """Epsilons of `--epsilon`, in order."""
    try:
        targets = sorted({float(word) for word in text.split(",")})
    except ValueError:
        targets = []
    if not targets or not all(math.isfinite(target) and target > 0 for target in targets):
        raise InputError(
            f"--epsilon {text!r}: allowed are numbers above 0 with commas between, such as 1,4,8"
        )
    return targets


Spec = Annotated[str, typer.Argument(metavar="SPEC", help="YAML file, or a packaged spec.")]
Out = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="A new folder to write.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the source or an attack."),
]
Attacks = Annotated[
    list[str] | None,
    typer.Option("--attack", metavar="NAME", help="In place of the attacks of the spec (repeat)."),
]


def plant_command(
    spec: Spec,
    out: Out,
    settings: Settings = None,
    attack: Attacks = None,
    commit: Annotated[
        bool, typer.Option("--commit", help="Write a hash of the coins, to publish now.")
    ] = False,
    plugin: PluginFiles = None,
) -> None:
    """Write a corpus with canaries to train on elsewhere, and the coins to attack the model with.

    Whoever trains gets FOLDER/corpus and nothing else. FOLDER/coins.json says which canaries are
    in: it stays with you. FOLDER/attack.yaml runs the attacks, once there is a model.

    \b
    uedp-bench plant mail.yaml --out planted --attack audit --attack secret-sharer
    (train a model on planted/corpus, anywhere, and save it as a folder of transformers)
    uedp-bench run planted/attack.yaml --set model.pretrained=FOLDER
    """  # noqa: D301
    from uedp_bench.components.registry import load_plugins
    from uedp_bench.one_run.planted_elsewhere import ATTACK, COINS, COMMITMENT, plant_folder
    from uedp_bench.spec.spec import apply_setting, parse_setting, parse_spec, read_spec

    load_plugins(plugin or [])
    wanted = parse_spec({**read_spec(spec), **({"attacks": attack} if attack else {})})
    for text in settings or ():
        wanted = apply_setting(wanted, *parse_setting(text))
    written = plant_folder(wanted, out, commit=commit)
    rows = ", ".join(f"{count:,} {split}" for split, count in written.rows.items())
    echo(f"{out}/corpus: {rows} rows. Whoever trains needs this folder alone: train on its split "
         "train, and on all of it")  # fmt: skip
    echo(f"{out}/{COINS}: which canaries are in. Keep it from whoever trains")
    if commit:
        echo(f"{out}/{COMMITMENT}: {written.commitment}. Publish it before anybody trains, and "
             "the coins after: leaderboard validate --coins")  # fmt: skip
    for line in written.summary:
        echo(line)
    attack_spec = shlex.quote(str(out / ATTACK))
    echo(f"next: uedp-bench run {attack_spec} --set model.pretrained=FOLDER")
