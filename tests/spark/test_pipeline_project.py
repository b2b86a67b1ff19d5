"""Projects and ready pipelines, without Spark: what is wrong is said in a sentence, with its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from cli.commands import run as command
from penstock.errors import ConfigError
from penstock.spark.pipelines.project import find_project
from penstock.spark.pipelines.ready import NAMES, init_project, load_ready

SPEC = "name: shop\nstorage: storage\nlibraries:\n  - glob: {include: transformations/**}\n"


def write_spec(directory: Path, text: str = SPEC) -> Path:
    (directory / "transformations").mkdir(parents=True)
    (directory / "transformations" / "a.py").write_text("")
    (directory / "spark-pipeline.yml").write_text(text)
    return directory


def test_a_project_is_found_from_inside_it_and_a_storage_without_a_scheme_is_beside_it(tmp_path):
    write_spec(tmp_path / "shop")
    project = find_project(tmp_path / "shop" / "transformations")
    assert (project.name, project.storage) == ("shop", str(tmp_path / "shop" / "storage"))
    assert [path.name for path in project.files] == ["a.py"]


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("name: shop\n", "'storage' is missing"),
        (SPEC + "topics: x\n", "unknown field 'topics'"),
        ("- a\n", "has no fields"),
        ("name: {\n", "is no YAML"),
        (
            SPEC + "configuration: {spark.sql.shuffle.partitions: 4}\n",
            'write the setting as text: spark.sql.shuffle.partitions: "4"',
        ),
        ("name: a\nstorage: b\nlibraries: [x]\n", "an entry of 'libraries'"),
        ("name: a\nstorage: b\nlibraries:\n  - glob: {include: none/**}\n", "nothing to run"),
    ],
)
def test_a_wrong_spec_is_said_with_its_place(tmp_path, spec, said):
    write_spec(tmp_path / "shop", spec)
    with pytest.raises(ConfigError) as caught:
        find_project(tmp_path / "shop")
    assert said in str(caught.value)
    assert "spark-pipeline.yml" in str(caught.value)


def test_where_there_is_no_project_it_says_how_to_make_one(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere"):
        result = command("pipeline", "status", str(path))
        assert "`penstock pipeline init` makes a project" in str(result.exception)


@pytest.mark.parametrize("name", NAMES)
def test_a_project_is_made_with_the_values_that_were_asked_for(tmp_path, name):
    ready = load_ready(name)
    assert ready.summary
    key = "topics" if name == "mirror" else "topic"
    result = command("pipeline", "init", str(tmp_path / "shop"), name, f'{key}=it"s')
    assert result.exit_code == 0, result.output
    source = (tmp_path / "shop" / "transformations" / f"{name}.py").read_text()
    assert f'{key.upper()} = "it\\"s"' in source
    compile(source, name, "exec")
    assert find_project(tmp_path / "shop").name == "shop"


def test_a_second_pipeline_goes_into_the_same_project_and_nothing_is_overwritten(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    init_project("shop", "lake", path="lake")
    assert f'PATH = "{tmp_path}/lake"' in Path("shop/transformations/lake.py").read_text()
    assert [path.name for path in init_project("shop", "live")] == ["live.py"]
    with pytest.raises(ConfigError, match="is there already"):
        init_project("shop", "lake")
    Path("full").mkdir()
    Path("full/x").touch()
    with pytest.raises(ConfigError, match="is no pipeline project"):
        init_project("full", "lake")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("lakes",), "There is no ready pipeline 'lakes'"),
        (("lake", "topics=a"), "did you mean 'topic'"),
        (("lake", "topic"), "is not key=value"),
    ],
)
def test_wrong_arguments_of_init_are_said(tmp_path, words, said):
    result = command("pipeline", "init", str(tmp_path / "shop"), *words)
    assert said in f"{result.exception} {result.output}"
    assert not (tmp_path / "shop").exists()


def test_the_broker_comes_from_the_environment_unless_it_is_given(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_BOOTSTRAP", "broker:1")
    command("pipeline", "init", str(tmp_path / "a"), "lake")
    command("pipeline", "init", str(tmp_path / "b"), "lake", "bootstrap=broker:2")
    for name, broker in (("a", "broker:1"), ("b", "broker:2")):
        assert f'BOOTSTRAP = "{broker}"' in (tmp_path / name / "transformations" / "lake.py").read_text()
