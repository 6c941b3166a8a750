"""The command line, as a person meets it."""

import fnmatch
import json
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from typer.testing import CliRunner

import countermax
from countermax.cli import _other, app

WORLDS = ["--factual", "0.3,0.4,0.3", "--counterfactual", "0.1,0.3,0.6", "--labels", "dead,ill,well"]
COMPARE = ["compare", *WORLDS, "--seen", "dead"]


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


def test_help_and_version_do_not_load_jax():
    code = (
        "import sys\n"
        "from typer.testing import CliRunner\n"
        "from countermax.cli import app\n"
        "assert CliRunner().invoke(app, ['--help']).exit_code == 0\n"
        "assert CliRunner().invoke(app, ['compare', '--help']).exit_code == 0\n"
        "heavy = {'jax', 'equinox', 'matplotlib', 'scipy', 'numpy', 'pandas', 'ot'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_tables_are_answered_without_jax_by_couplings_with_a_closed_form(tmp_path):
    """In one process of its own, in which nobody can import it."""
    table = pa.table({"y": ["a", "b"], "p_a": [0.5, 0.5], "p_b": [0.5, 0.5], "q_a": [0.2, 0.3], "q_b": [0.8, 0.7]})
    pa.parquet.write_table(table, tmp_path / "in.parquet")
    columns = ["--outcome", "y", "--factual", "p_", "--counterfactual", "q_", "--overwrite"]
    named = [("gumbel-max", "out.parquet"), ("gumbel-max", "out.csv"), ("gumbel-max", "folder")]
    named += [(each, "out.parquet") for each in ("gumbel-max-shared-0.5", "inverse-cdf", "maximal", "independent")]
    asked = [
        ["counterfactuals", str(tmp_path / "in.parquet"), *columns, "--coupling", name, "--out", str(tmp_path / target)]
        for name, target in named
    ]
    code = (
        "import sys\nclass Missing:\n  def find_spec(name, *_):\n"
        "    if name.split('.')[0] in ('jax', 'equinox'): raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, Missing)\n"
        "from typer.testing import CliRunner\nfrom countermax.cli import app\n"
        f"for each in {asked}:\n  found = CliRunner().invoke(app, each)\n"
        "  assert (found.exit_code, found.stderr) == (0, ''), (each, found.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_version():
    assert run("--version").stdout.strip() == f"countermax {countermax.__version__}"


def test_the_answer_comes_first_then_the_table():
    result = run(*COMPARE, "--score", "0,1,2")
    assert result.exit_code == 0, result.output
    question, data, coupling, verdict, *rest = result.stdout.splitlines()
    assert question == "Seen under factual: dead. What would have happened under counterfactual?"
    assert "whatever the coupling" in data
    assert coupling.startswith("With Gumbel-max assumed: ")
    assert "coupling matters" in verdict
    for word in ("any coupling", "0.556", "effect variance", "dead, ill, well (scored 0 to 2)"):
        assert word in "\n".join(rest)


def test_an_answer_goes_to_json_a_picture_a_page_and_a_table(tmp_path):
    picture, page, table = tmp_path / "out.svg", tmp_path / "out.html", tmp_path / "out.csv"
    result = run(*COMPARE, "--json", "--plot", picture, "--page", page, "--out", table, "--couplings", "all")
    found = json.loads(result.stdout)["rows"]
    assert {"Gumbel-max", "maximal", "independent"} <= {each["coupling"] for each in found}
    assert "Counterfactual probabilities were computed exactly" in page.read_text()
    assert picture.read_text().lstrip().startswith("<?xml")
    assert "data:image/png;base64," in page.read_text()
    assert len(table.read_text().splitlines()) == len(found) + 1
    assert table.read_text().startswith("quantity,about,coupling,value,lower,upper,ci_lower,ci_upper")


def test_json_is_what_the_library_says():
    result = json.loads(run(*COMPARE, "--score", "0,1,2", "--json").stdout)
    worlds = countermax.Worlds([0.3, 0.4, 0.3], [0.1, 0.3, 0.6], labels=["dead", "ill", "well"], score=[0, 1, 2])
    assert result == worlds.compare("dead").to_dict()


def _probability(result, label, coupling="Gumbel-max"):
    rows = json.loads(result.stdout)["rows"]
    return next(each["value"] for each in rows if (each["quantity"], each["coupling"]) == (f"P({label})", coupling))


@pytest.mark.parametrize(("here", "there"), [("--factual", "--counterfactual"), ("--control", "--treated")])
def test_what_has_no_file_can_be_given_names_and_an_end_that_is_good(here, there):
    shares = ("0.7,0.2,0.1", "0.5,0.2,0.3") if here == "--factual" else ("70,20,10", "50,20,30")
    asked = ("--labels", "no,later,yes", "--best", "yes", "--seen", "no", "--names", "model A,model B")
    said = run("compare", here, shares[0], there, shares[1], *asked).stdout
    assert said.startswith("Seen under model A: no. What would have happened under model B?")
    assert "better 29 to 71 %" in said
    assert "Best: yes; worst: no." in said


def test_logits_and_counts_are_accepted():
    scaled = run(
        "compare", "--factual", "30,40,30", "--counterfactual", "10,30,60", "--seen", 0, "--normalise", "--json"
    )
    assert _probability(scaled, 2) == pytest.approx(5 / 9)
    counts = run("compare", "--control", "30,40,30", "--treated", "10,30,60", "--seen", 0, "--json")
    assert _probability(counts, 2) == pytest.approx(5 / 9)
    logits = run("compare", "--factual", "0,-inf", "--counterfactual", "0,0", "--seen", 0, "--logits", "--json")
    assert _probability(logits, 1) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"--factual": "0.3,0.4,0.2"}, "--factual must sum to 1, got 0.9"),
        ({"--factual": "0.3,-0.4,1.1"}, "must not be negative"),
        ({"--factual": "0.3,nan,0.2"}, "must not contain NaN"),
        ({"--factual": "0.3,x,0.2"}, "--factual must be numbers separated by commas, got 'x'"),
        ({"--counterfactual": "0.5,0.5"}, "same number of outcomes"),
        ({"--seen": "sick"}, "one of the labels"),
        ({"--factual": "0,0.5,0.5"}, "probability zero"),
        ({"--score": "1,2"}, "one number for each"),
        ({"--level": "0.9"}, "--level goes without --factual: what is known has no intervals"),
        ({"--names": "old"}, "--names must be two different names, got ['old']"),
        ({"--plot": "out.jpeg"}, "end it in .png, .pdf, .svg"),
        ({"--plot": "/nowhere/out.png"}, "cannot write"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(change, message, as_users_call):
    options = dict(zip(COMPARE[1::2], COMPARE[2::2], strict=True)) | change
    result = run("compare", *(part for option in options.items() for part in option))
    assert result.exit_code == 2
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert "Traceback" not in result.output


def test_an_unwritable_folder_is_one_line(tmp_path, as_users_call):
    blocker = tmp_path / "file"
    blocker.write_text("")
    result = run("demo", "--out", blocker / "demo")
    assert result.exit_code == 2
    assert "cannot write to the folder" in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_the_installed_command_runs():
    command = Path(sys.executable).with_name("countermax")
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert countermax.__version__ in done.stdout


@pytest.mark.parametrize(
    ("arguments", "status"),
    [(["--version"], 0), (["compare", "--factual", "x", "--seen", "0"], 2), (["nonsense"], 2), ([], 0)],
)
def test_the_command_ends_with_its_status_and_all_that_it_printed(arguments, status):
    command = Path(sys.executable).with_name("countermax")
    done = subprocess.run([command, *arguments], capture_output=True, text=True)
    assert done.returncode in (status, 2 if not arguments else status)  # help for no arguments: 0, or 2 in newer Typer
    assert (done.stdout + done.stderr).strip()


CONFIG = """
[task]
pairs = "independent"
num_outcomes = 4
scale = 4.0

[recipe]
gadget = "gadget-2"
num_latents = 4
hidden = [8]
steps = 20
batch_size = 8

[repeats]
seeds = 2
held_out = 16
"""


def test_train_writes_a_run_that_evaluate_reads(tmp_path):
    config, out = tmp_path / "run.toml", tmp_path / "run"
    config.write_text(CONFIG)
    result = run("train", config, "--out", out)
    assert result.exit_code == 0, result.output
    names = {path.name for path in out.iterdir()}
    assert names == {
        "coupling-0.safetensors", "coupling-1.safetensors", "checkpoint.safetensors", "run.json", "evaluation.csv",
        "evaluation.md", "losses.png", "curves.png",
    }  # fmt: skip
    assert all(any(fnmatch.fnmatch(name, known) for known in _other._RUN) for name in names)
    record = json.loads((out / "run.json").read_text())
    assert record["config"]["task"]["num_outcomes"] == 4
    assert [each["ended"] for each in record["fits"].values()] == ["finished", "finished"]
    again = run("evaluate", config, out / "coupling-1.safetensors", "--json")
    assert again.exit_code == 0, again.output

    def losses(evaluation, name):
        return {each["quantity"]: each["value"] for each in evaluation["rows"] if each["coupling"] == name}

    assert losses(json.loads(again.stdout), "coupling-1") == pytest.approx(losses(record["evaluation"], "seed 1"))
    assert "Gumbel-max" in run("evaluate", config, "--num-pairs", 20, "--out", tmp_path / "more").stdout
    assert {path.name for path in (tmp_path / "more").iterdir()} == set(_other._EVALUATION)
    assert run("train", config, "--out", out).exit_code == 0  # finished: the checkpoint is read, nothing is trained


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("steps = 20", "stepps = 20", "unknown key recipe.stepps"),
        ("steps = 20", "steps = 0", "recipe.steps must be at least 1, got 0"),
        ("steps = 20", 'steps = "many"', "recipe.steps must be a whole number, got 'many'"),
        ("steps = 20", "learning_rate = -1.0", "recipe.learning_rate must be above 0.0"),
        ("[repeats]", "[repeat]", "unknown section 'repeat'"),
        ('gadget = "gadget-2"', 'gadget = "gadget-3"', "recipe.gadget must be one of gadget-1, gadget-2"),
        ('gadget = "gadget-2"', "", "recipe.gadget is missing"),
        ("hidden = [8]", "hidden = [8, 0]", "every entry of recipe.hidden must be at least 1, got 0"),
        ("num_outcomes = 4", "", "needs task.num_outcomes"),
        ("scale = 4.0", "score = [1.0, 2.0]", "task.score must have one entry for each of 4 outcomes, got 2"),
        (
            'pairs = "independent"',
            'pairs = "fixed"',
            "`num_outcomes` says nothing where `pairs` is 'fixed', which uses p, q",
        ),
        ("hidden = [8]", 'start = "gumbel-max"', "recipe: `start` must be one of random, scattered, "),
        ("[task]", "[task", "not valid TOML"),
    ],
)
def test_a_bad_configuration_names_the_key(tmp_path, old, new, message, as_users_call):
    config = tmp_path / "run.toml"
    config.write_text(CONFIG.replace(old, new))
    result = run("train", config, "--out", tmp_path / "run")
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


def test_a_file_that_is_no_coupling_is_one_line(tmp_path, as_users_call):
    config = tmp_path / "run.toml"
    config.write_text(CONFIG)
    result = run("evaluate", config, config)
    assert result.exit_code == 2
    assert "not a file of countermax" in result.stderr
    assert "or a file with one" in run("evaluate", config, tmp_path / "missing.safetensors").stderr
    assert "cannot read" in run("train", tmp_path / "missing.toml").stderr


def test_a_quoted_label_may_contain_a_comma():
    labels = 'dead,"ill, at home",well'
    result = run(*COMPARE[:5], "--labels", labels, "--seen", "ill, at home", "--json")
    assert _probability(result, "ill, at home") > 0


@pytest.fixture(scope="module")
def trial_file(tmp_path_factory):
    counts = {"placebo": (30, 40, 30), "drug": (10, 30, 60)}
    rows = [
        f"{arm},{label}"
        for arm, each in counts.items()
        for label, count in zip(("dead", "ill", "well"), each, strict=True)
        for _ in range(count)
    ]
    path = tmp_path_factory.mktemp("trial") / "trial.csv"
    path.write_text("\n".join(["arm,status", *rows]))
    return path


ARMS = ("--outcome", "status", "--arm", "arm", "--control", "placebo", "--treated", "drug")


def test_a_trial_in_a_file_and_its_counts_are_the_same_question(trial_file):
    of_file = run("compare", trial_file, *ARMS, "--seen", "dead", "--score", "dead=0,ill=1,well=2", "--json")
    numbers = ("--control", "30,40,30", "--treated", "10,30,60", "--labels", "dead,ill,well", "--seen", "dead")
    of_counts = run("compare", *numbers, "--score", "0,1,2", "--json")
    first, second = (json.loads(each.stdout) for each in (of_file, of_counts))
    assert first["rows"] == second["rows"]
    assert first["sample"] == "100 people in placebo and 100 in drug"


def test_compare_and_causes_read_a_trial_by_the_same_options(trial_file):
    found = json.loads(run("causes", trial_file, *ARMS, "--event", "well", "--json").stdout)["rows"]
    counts = ("--control", "30,40,30", "--treated", "10,30,60", "--labels", "dead,ill,well")
    same = json.loads(run("causes", *counts, "--event", "well", "--json").stdout)["rows"]
    assert found == same
    assert {"PN", "PS", "PNS"} <= {each["quantity"] for each in found}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "--control and --treated is missing"),
        (["--factual", "1,2"], "--counterfactual is missing"),
        (["--factual", "0.5,0.5", "--counterfactual", "0.5,0.5", "--weights", "w"], "--weights needs a file"),
        (["--factual", "0.5,0.5", "--counterfactual", "0.5,0.5", "--control", "1,2"], "--control goes without"),
        (["t.csv", "--arm", "arm"], "t.csv needs --outcome (the column with the outcomes)"),
        (["t.csv", *ARMS, "--logits"], "--logits goes without a file"),
    ],
)
def test_a_question_is_asked_of_data_or_of_numbers(arguments, message, as_users_call):
    result = run("compare", *arguments, "--seen", "dead")
    assert result.exit_code == 2
    assert message in result.stderr
