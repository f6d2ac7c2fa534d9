"""`uedp-bench plant`: canaries for a training that happens elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from uedp_bench.cli.console import PluginFiles, echo

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
    from uedp_bench.one_run.planted_folder import ATTACK, COINS, plant_folder
    from uedp_bench.spec.settings import parse_setting
    from uedp_bench.spec.spec import apply_setting, parse_spec
    from uedp_bench.spec.spec_files import read_spec

    load_plugins(plugin or [])
    wanted = parse_spec({**read_spec(spec), **({"attacks": attack} if attack else {})})
    for text in settings or ():
        wanted = apply_setting(wanted, *parse_setting(text))
    written = plant_folder(wanted, out)
    rows = ", ".join(f"{count:,} {split}" for split, count in written.rows.items())
    echo(f"{out}/corpus: {rows} rows. Whoever trains needs this folder alone: train on its split "
         "train, and on all of it")  # fmt: skip
    echo(f"{out}/{COINS}: which canaries are in. Keep it from whoever trains")
    for line in written.summary:
        echo(line)
    echo(f"next: uedp-bench run {out}/{ATTACK} --set model.pretrained=FOLDER")
