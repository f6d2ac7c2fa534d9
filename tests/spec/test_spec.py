"""Specs: grids, settings, and the identity of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import pytest
from tiny import NOISELESS, ROUNDS, USER_DP, runs, tiny

from uedp_bench.components import registry
from uedp_bench.components.component import MayBePath, Params
from uedp_bench.contracts.mechanism import TrainingMechanism
from uedp_bench.contracts.results import ComponentSpec
from uedp_bench.errors import InputError, UnknownNameError
from uedp_bench.spec.grid import expand
from uedp_bench.spec.identity import Identity, component_identity
from uedp_bench.spec.spec import apply_setting, packaged_specs, parse_setting, parse_spec, read_spec


def params(spec, kind="mechanism"):
    part = getattr(spec, kind)
    return (part[0] if isinstance(part, tuple) else part).params


# ------------------------------------------------------------------------------------------ grids


def test_every_list_value_is_an_axis_and_seeds_are_outermost():
    mechanism = {"name": "user-dp", "params": {**ROUNDS, "clip": [0.1, 0.2]}}
    grid = runs(mechanism, NOISELESS, seeds=[3, 4], model={"params": {"units": [4, 8]},
                                                           "name": "lstm-small"})  # fmt: skip
    assert len(grid) == 2 * 2 * (2 + 1)
    assert [run.seed for run in grid] == [3] * 6 + [4] * 6
    clips = {(r.seed, params(r, "model")["units"], params(r).get("clip")) for r in grid}
    assert clips == {(s, u, c) for s in (3, 4) for u in (4, 8) for c in (0.1, 0.2, None)}


def test_axes_of_a_composition_multiply():
    deidentify = {"name": "deidentify", "params": {"style": ["placeholder", "remove"]}}
    noisy = {"name": "user-dp", "params": {"noise_multiplier": [1, 2]}}
    grid = runs([deidentify, noisy])
    both = [(r.mechanism[0].params["style"], r.mechanism[1].params["noise_multiplier"])
            for r in grid]  # fmt: skip
    assert sorted(both) == [(s, z) for s in ("placeholder", "remove") for z in (1.0, 2.0)]


def test_a_list_is_one_value_of_a_parameter_that_is_a_list():
    attack = {"name": "secret-sharer", "params": {"p_u": [0.1, 0.2]}}
    assert [a.params["p_u"] for r in runs(attacks=[attack]) for a in r.attacks] == [[0.1, 0.2]]
    attack["params"]["p_u"] = [[0.1, 0.2], [0.5]]
    rates = [a.params["p_u"] for r in runs(attacks=[attack]) for a in r.attacks]
    assert rates == [[0.1, 0.2], [0.5]]
    types = {"name": "deidentify", "params": {"entity_types": [None, ["PER"]]}}
    assert [params(r)["entity_types"] for r in runs(types)] == [None, ["PER"]]


def test_a_bad_element_of_a_list_parameter_is_named_as_such():
    attack = {"name": "secret-sharer", "params": {"p_u": [0.1, 2.0]}}
    with pytest.raises(InputError, match=r"secret-sharer\.p_u\.1.*2\.0.* 1"):
        runs(attacks=[attack])


def test_equal_runs_are_run_once():
    assert len(runs(USER_DP, USER_DP, seeds=[1])) == 1


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"mechanism": "noiseless", "seedz": [1]}, "'seeds'"),
        ({"mechanisms": 3}, "spec.mechanisms is 3"),
        ({"mechanisms": [3]}, "spec.mechanisms.0.0"),
        ({"mechanisms": None}, "spec.mechanisms"),
        ({"mechanism": "noiseless", "mechanisms": []}, "both 'mechanism' and 'mechanisms'"),
        (
            {"mechanism": "noiseless", "source": {"params": {}}},
            "spec.source is {'params': {}}: 'name'",
        ),
        ({"mechanism": "noiseless", "seeds": [-1]}, "spec.seeds.0 is -1"),
        ({"mechanism": "noiseless", "seeds": []}, "spec.seeds"),
        ({"mechanism": "noiseless", "delta": 1}, "spec.delta is 1"),
        ({"mechanism": {"name": "user-dp", "params": {"clip": float("inf")}}}, "finite"),
    ],
)
def test_bad_specs_are_refused_in_one_line(data, message):
    with pytest.raises(InputError) as refused:
        expand(parse_spec(data))
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


# --------------------------------------------------------------------------------------- settings


def composed():
    return parse_spec({"mechanisms": ["deidentify + user-dp", "user-dp", "noiseless"]})


def test_a_named_setting_reaches_every_composition_that_holds_the_mechanism():
    spec = apply_setting(composed(), ("mechanism", "user-dp", "rounds"), 7)
    rounds = [p.params.get("rounds") for run in expand(spec) for p in run.mechanism]
    assert rounds == [None, 7, 7, None]
    assert composed() == parse_spec({"mechanisms": ["deidentify+user-dp", "user-dp", "noiseless"]})


def test_the_short_form_is_for_one_mechanism_only():
    spec = parse_spec({"mechanisms": ["user-dp", [{"name": "user-dp", "params": {"clip": 2}}]]})
    short = apply_setting(spec, ("mechanism", "rounds"), [7, 8])
    assert short == apply_setting(spec, ("mechanism", "user-dp", "rounds"), [7, 8])
    assert sorted(params(r)["rounds"] for r in expand(short)) == [7, 7, 8, 8]
    several = r"deidentify, noiseless.*mechanism\.user-dp\."
    with pytest.raises(InputError, match=several):
        apply_setting(composed(), ("mechanism", "rounds"), 7)
    with pytest.raises(InputError, match=r"none.*--attack NAME"):
        apply_setting(composed(), ("attack", "canaries"), 7)


def test_settings_reach_the_other_components():
    spec = composed()
    for path, value in [
        (("source", "users"), 100), (("model", "units"), 3), (("task", "preprocessing"), "paper"),
        (("delta",), "1e-6"),
    ]:  # fmt: skip
        spec = apply_setting(spec, path, value)
    run = expand(spec)[0]
    assert params(run, "source")["users"] == 100
    assert params(run, "model")["units"] == 3
    assert params(run, "task")["preprocessing"] == "paper"
    assert run.delta == 1e-6


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (("rounds",), r"--set .*: .*source\..*mechanism"),
        (("mechanism",), r"--set .*: .*source\..*mechanism"),
        (("source", "a", "b"), r"--set .*: .*source\..*mechanism"),
        (("speed", "chunk"), r"--set .*: .*source\..*mechanism"),
        (("mechanism", "uedp", "rounds"), "'uedp'.*'user-dp'"),
    ],
)
def test_a_setting_that_addresses_nothing_is_refused(path, message):
    with pytest.raises(InputError, match=message):
        apply_setting(composed(), path, 1)


# ----------------------------------------------------------------------------------------- files


def test_every_packaged_spec_expands_but_for_its_files():
    assert "quickstart" in packaged_specs()
    for name in packaged_specs():
        spec = parse_spec(read_spec(name))
        if registry.sources.get(spec.source.name).needs_path:
            spec = apply_setting(spec, ("source", "path"), "somewhere")
        if spec.model is not None and spec.model.name == "marian":
            spec = apply_setting(spec, ("model", "pretrained"), "somewhere")
        if spec.task.name == "pretrained-tagging":
            labelled = {"name": "bc5cdr", "params": {"path": "somewhere"}}
            spec = apply_setting(spec, ("task", "labelled"), labelled)
        assert expand(spec), name
        assert read_spec(f"specs/{name}.yaml") == read_spec(name)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: [1", "YAML"),
        (b"- 1", r"spec\.yaml.*mapping.*noise_source"),
        (b"", r"spec\.yaml.*mapping.*noise_source"),
        (b"\xff\xfe\x00", "UTF-8"),
    ],
)
def test_files_that_are_no_spec(tmp_path, content, message):
    file = tmp_path / "spec.yaml"
    file.write_bytes(content)
    with pytest.raises(InputError, match=message) as refused:
        read_spec(str(file))
    assert "\n" not in str(refused.value)


# -------------------------------------------------------------------------------------- identity


def test_the_spec_of_a_run_runs_again_to_the_same_identity(tmp_path):
    attack = {"name": "secret-sharer", "params": {"p_u": [1e-5, 0.2], "p_e": [[1.0], [0.5, 1]]}}
    for run in runs(USER_DP, ["deidentify", USER_DP], attacks=[attack], seeds=[5], delta=1e-6):
        file = tmp_path / "again.json"
        file.write_text(json.dumps(run.model_dump(mode="json")))
        (again,) = expand(parse_spec(read_spec(str(file))))
        assert again == run
        assert Identity.from_spec(again, "f") == Identity.from_spec(run, "f")


def test_the_group_is_the_identity_without_the_seed():
    first, second = runs(seeds=[1, 2])
    assert Identity.from_spec(first, "f").id != Identity.from_spec(second, "f").id
    assert Identity.from_spec(first, "f").group == Identity.from_spec(second, "f").group
    assert Identity.from_spec(first, "f").id != Identity.from_spec(first, "f").group


def test_everything_that_defines_a_run_changes_both():
    base = Identity.from_spec(runs()[0], "f")
    others = [
        Identity.from_spec(runs()[0], "g"),
        Identity.from_spec(runs(delta=1e-6)[0], "f"),
        Identity.from_spec(runs(NOISELESS)[0], "f"),
        Identity.from_spec(runs({"name": "user-dp", "params": {**ROUNDS, "clip": 0.5}})[0], "f"),
        Identity.from_spec(runs(attacks=["secret-sharer"])[0], "f"),
        Identity.from_spec(
            runs(task={"name": "next-word", "params": {"preprocessing": "paper"}})[0], "f"
        ),
    ]
    assert len({one.id for one in (base, *others)}) == 7
    assert len({one.group for one in (base, *others)}) == 7


@pytest.mark.parametrize(
    ("kind", "name"),
    [("mechanisms", "user-dp"), ("models", "lstm-small"), ("sources", "embedded"),
     ("tasks", "next-word"), ("attacks", "secret-sharer")],
)  # fmt: skip
def test_a_new_version_of_any_component_changes_both(monkeypatch, kind, name):
    (run,) = runs(attacks=["secret-sharer"])
    before = Identity.from_spec(run, "f")
    component = registry.REGISTRIES[kind].get(name)
    monkeypatch.setattr(component, "version", component.version + 1)
    after = Identity.from_spec(run, "f")
    assert before.id != after.id
    assert before.group != after.group


def test_paths_of_a_source_are_no_part_of_it():
    def identity_by(path):
        source = {"name": "conll2003", "params": {"path": path, "public": [f"{path}/extra.txt"]}}
        return Identity.from_spec(expand(parse_spec(tiny(source=source)))[0], "f")

    assert identity_by("a") == identity_by("/somewhere/else")
    hub = [
        Identity.from_spec(
            expand(parse_spec(tiny(source={"name": "hub", "params": {"path": p}})))[0], "f"
        )
        for p in ("owner/name", "/a/copy/of/it")
    ]
    assert hub[0] == hub[1]


def test_other_files_count_by_what_they_hold(tmp_path):
    def identity_by(path):
        task = {"name": "next-word", "params": {"vocabulary": str(path)}}
        return Identity.from_spec(runs(task=task)[0], "f")

    files = [tmp_path / name for name in ("a.txt", "b.txt", "c.txt")]
    for file, text in zip(files, ("some words", "some words", "other words"), strict=True):
        file.write_text(text)
    same, moved, other = map(identity_by, files)
    assert same == moved
    assert same != other
    assert identity_by("private") != identity_by("public")


def test_a_reserved_word_is_never_a_path(tmp_path, monkeypatch):
    before = Identity.from_spec(runs()[0], "f")
    monkeypatch.chdir(tmp_path)
    Path("public").write_text("a file called like the split")
    assert Identity.from_spec(runs()[0], "f") == before


def test_folders_count_by_names_and_contents(tmp_path, monkeypatch):
    class FolderParams(Params):
        where: Annotated[str | None, MayBePath()] = None
        also: tuple[Path, ...] = ()

    class Loads(TrainingMechanism):
        name = "loads"
        Params = FolderParams

        plan = train = None

    Loads.__abstractmethods__ = frozenset()
    monkeypatch.setattr(registry.mechanisms, "_plugins",
                        {"loads": registry.Origin("here", lambda: Loads)})  # fmt: skip
    folders = [tmp_path / name for name in "abc"]
    for folder, (file, text) in zip(folders, (("w", "x"), ("w", "x"), ("v", "x")), strict=True):
        (folder / "sub").mkdir(parents=True)
        (folder / "sub" / file).write_text(text)

    def identity_by(where):
        ref = ComponentSpec(name="loads", params={"where": where, "also": [where]})
        return component_identity(ref, registry.mechanisms)

    first, copy, renamed = (identity_by(str(folder)) for folder in folders)
    assert first == copy
    assert first != renamed
    assert str(tmp_path) not in json.dumps(first)
    assert identity_by("hub/name")[2]["where"] == "hub/name"


def test_unknown_names_keep_their_kind():
    with pytest.raises(UnknownNameError, match=r"source.*'conl2003'.*'conll2003'"):
        runs(source="conl2003")


def test_mistakes_of_all_components_are_said_at_once():
    spec = parse_spec(
        {
            "mechanisms": [{"name": "user-dp", "params": {"rounds": 0, "clip": -1}}, "noisless"],
            "attacks": [{"name": "membership", "params": {"held_out": 1}}],
            "source": {"name": "text", "params": {}},
        }
    )
    with pytest.raises(InputError) as refused:
        expand(spec)
    message = str(refused.value)
    for what in ("user-dp.rounds", "user-dp.clip", "noisless", "held_out", "'path'"):
        assert what in message


def test_grids_are_counted_before_they_are_made():
    many = {name: list(range(1, 101)) for name in ("rounds", "clip", "noise_multiplier")}
    spec = parse_spec({"mechanisms": [{"name": "user-dp", "params": many}], "seeds": [1, 2]})
    with pytest.raises(InputError, match="2000000 runs"):
        expand(spec)
    three = parse_spec({"mechanisms": ["noiseless"], "seeds": [1, 2, 3]})
    assert len(expand(three, most=3)) == 3
    with pytest.raises(InputError, match="--max-runs"):
        expand(three, most=2)


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("mechanism.rounds=50", ("mechanism", "rounds"), 50),
        ("mechanism.user-dp.clip=0.1", ("mechanism", "user-dp", "clip"), 0.1),
        ("delta=1e-5", ("delta",), 1e-5),
        ("a=[1e-5, 2]", ("a",), [1e-5, 2]),
        ("a=true", ("a",), True),
        ("a=null", ("a",), None),
        ("a=", ("a",), None),
        ("a=x=y", ("a",), "x=y"),
        ("a=elephant", ("a",), "elephant"),
        ("a=2e", ("a",), "2e"),
        ("a=f_E+", ("a",), "f_E+"),
    ],
)
def test_settings(text, path, value):
    got = parse_setting(text)
    assert got == (path, value)
    assert type(got[1]) is type(value)


@pytest.mark.parametrize("text", ["rounds", "=5", "a..b=5", "a=[1", ""])
def test_what_is_not_a_setting_is_refused(text):
    with pytest.raises(InputError, match="--set"):
        parse_setting(text)
