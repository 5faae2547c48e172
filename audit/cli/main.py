"""The command line. Every command is imported when it is called, so that --help answers at once."""

from __future__ import annotations

import io
import os
import signal
import socket
import sys
import traceback
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import typer

from ..plan import MODELS
from .account import account
from .bound import bound
from .data import app as data
from .findings import findings
from .lists import Json, accountants, attacks, models
from .power import power
from .selftest import selftest

app = typer.Typer(
    help="Finds out whether differentially private graph neural networks are as private as they claim.",
    invoke_without_command=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.add_typer(data, name="data")
app.command()(account)
app.command()(bound)
app.command()(findings)
app.command()(power)
app.command()(selftest)

Option = typer.Option
Text = str | None


@app.callback()
def start(
    context: typer.Context,
    version: Annotated[bool, Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        from importlib.metadata import version as installed

        print(f"gnnaudit {installed('gnnaudit')}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def run(
    plan: Annotated[Path | None, typer.Argument(help="A TOML file whose table `run` holds the options below.")] = None,
    data: Annotated[Text, Option(help="Data set by name, or a path. Default: campus. See `audit data list`.")] = None,
    data_dir: Annotated[Text, Option(help="Where data sets lie or are downloaded to.")] = None,
    models: Annotated[Text, Option(help=f"Systems, by comma. Default: {','.join(MODELS)}. See `audit models`.")] = None,
    mode: Annotated[Text, Option(help="paper (as published), sound (as it can be proved) or both. Default: sound.")] = None,
    epsilon: Annotated[Text, Option(help="Budgets, by comma; inf for none. Default: 1,8,inf.")] = None,
    delta: Annotated[float | None, Option(help="Default: public, per unit.")] = None,
    unit: Annotated[Text, Option(help="directed-edge, undirected-edge, node or features. Default: each model's own.")] = None,
    param: Annotated[list[str] | None, Option(help="A field of the models: NAME=VALUE, or MODEL.NAME=VALUE. Repeatable.")] = None,
    attacks: Annotated[
        Text, Option(help="Membership attacks by comma, all or none. Default: those without classifiers. See `audit attacks`.")
    ] = None,
    audits: Annotated[
        Text,
        Option(
            help="replay, differential, exact, residual, game, transcript, reports, entries, votes, rows, gradients, blackbox, "
            "one-run; by comma, all or none. Default: all."
        ),
    ] = None,
    rounds: Annotated[int | None, Option(help="Rounds of the game, each with up to 1000 canaries. Default: 10.")] = None,
    shadows: Annotated[int | None, Option(help="Runs whose bits the attacker is told. Default: 8.")] = None,
    targets: Annotated[int | None, Option(help="Runs that are attacked. Default: 4.")] = None,
    repeats: Annotated[int | None, Option(help="Trainings behind a utility figure. Default: 10.")] = None,
    seed: Annotated[Text, Option(help="Any word: makes the run reproducible, noise included. For measurements only.")] = None,
    out: Annotated[Text, Option(help="Folder of the run. Default: runs/audit.")] = None,
    mlflow: Annotated[Text, Option(help="Tracking URI, or none. Default: SQLite beside the runs.")] = None,
    device: Annotated[Text, Option(help="cpu or cuda. Default: cpu.")] = None,
    memory: Annotated[Text, Option(help="Working memory of one chunk. Default: 8GiB.")] = None,
    jobs: Annotated[int | None, Option(help="Worker processes. Default: one for each core.")] = None,
    ray: Annotated[Text, Option(help="Address of a Ray cluster, or local.")] = None,
    target: Annotated[Text, Option(help='A program of your own: "COMMAND {worlds} {out}".')] = None,
    model: Annotated[Text, Option(help="A model of your own: FILE.py:Name.")] = None,
    alpha: Annotated[float | None, Option(help="Chance of a false alarm in the whole plan. Default: 0.05.")] = None,
    notices: Annotated[
        float | None, Option(help="The violation, as a factor of the noise, that the run must be able to notice. Default: 1.5.")
    ] = None,
    split: Annotated[int | None, Option(help="Which public split of the nodes. Default: 0.")] = None,
    preset: Annotated[
        Text, Option(help="ci: what a pull request can wait for. nightly: everything. Both at a false-alarm level of 1e-4.")
    ] = None,
    fresh: Annotated[bool | None, Option("--fresh", help="Ignore stored parts.")] = None,
    quiet: Annotated[bool, Option("--quiet", "-q", help="No progress and no tables: files and the exit code alone.")] = False,
    verbose: Annotated[bool, Option("--verbose", "-v", help="A line for each audit, as its system is done.")] = False,
    json: Json = False,
) -> None:
    """Train, attack, bound, judge and report. The main job.

    Example: audit run --data facebook100:JohnsHopkins55 --data-dir data --models gap,progap --mode both --epsilon 1,4
    """
    options = {name: value for name, value in locals().items() if name not in ("plan", "json", "quiet", "verbose")}
    from ..plan import read

    asked = read(plan, options)
    if asked.device == "cuda" and asked.ray is None:
        import torch

        if not torch.cuda.is_available():
            raise ValueError("device=cuda: this machine has no CUDA device that torch can use. Leave --device out.")
    from ..run import run as run_plan

    raise typer.Exit(run_plan(asked, json=json, quiet=quiet, verbose=verbose))


@app.command()
def contract(
    model: Annotated[str, typer.Argument(help="FILE.py:Name, or the name of a system that comes with the harness.")],
    mode: Annotated[str, Option(help="paper or sound.")] = "sound",
    json: Json = False,
) -> None:
    """The model contract, run on a model: each clause that fails with the smallest graph that shows it.

    Example: audit contract ./mine.py:Mine
    """
    from ...models.facts import Facts
    from ...models.systems import SYSTEMS
    from ..own import contract as module
    from ..own.doors import own_models

    graph = module.tiny(module.SIZES[-1])
    made = SYSTEMS[model].make if model in SYSTEMS else next(iter(own_models(None, model).values()))
    raise typer.Exit(module.show(made(mode, Facts.of(graph), True), json))


@app.command()
def report(run: Annotated[Path, typer.Argument(help="Folder of a run.")]) -> None:
    """Rebuild the HTML report of a run from what is on disk.

    Example: audit report runs/audit
    """
    from ...reports.formats import html

    print(html.render(run))


@app.command()
def mirror(
    runs: Annotated[list[Path], typer.Argument(help="Folders of runs.")],
    mlflow: Annotated[Text, Option(help="Tracking URI. Default: SQLite beside the runs.")] = None,
) -> None:
    """Rebuild the MLflow mirror of runs from what is on disk. Exit code 3 where the store cannot be reached.

    Example: audit mirror runs/monday runs/tuesday
    """
    from ...reports.formats import mlflow_mirror as module

    reached = [module.mirror(run, mlflow) for run in runs]
    print(f"{sum(reached)} of {len(runs)} runs are in MLflow. `audit ui` shows them.", file=sys.stderr)
    raise typer.Exit(0 if all(reached) else 3)


@app.command()
def ui(
    runs: Annotated[Path, typer.Argument(help="Folder that holds the runs.")] = Path("runs"),
    mlflow: Annotated[Text, Option(help="Tracking URI. Default: SQLite beside the runs.")] = None,
    port: Annotated[int, Option(help="Port on this machine.")] = 5000,
) -> None:
    """Open the MLflow UI on the runs' store.

    Example: audit ui runs --port 5001
    """
    from ...reports.formats.mlflow_mirror import ui_command

    if mlflow is None and not runs.is_dir():
        raise ValueError(f"{runs}: no such folder. Name the one that holds the runs; `audit run` makes it.")
    if mlflow is None and (runs / "results.json").exists():
        raise ValueError(f"{runs}: is one run. Name the folder that holds the runs: `audit ui {runs.resolve().parent}`.")
    with socket.socket() as door:
        if door.connect_ex(("127.0.0.1", port)) == 0:
            raise ValueError(f"port={port}: something answers there already. Choose another with --port.")
    print(f"http://127.0.0.1:{port} (Ctrl-C ends it)", file=sys.stderr)
    command = ui_command(runs, mlflow, port)
    os.execvp(command[0], command)  # in this process, so that whoever ends it ends the server


@app.command()
def compare(
    one: Annotated[Path, typer.Argument(help="Folder of a run.")],
    other: Annotated[Path, typer.Argument(help="Folder of another run.")],
    every: Annotated[
        bool, Option("--all", help="Also what differs by no more than chance, and verdicts that are the same.")
    ] = False,
    json: Json = False,
) -> None:
    """Two runs side by side: which verdicts changed and what leaks more, with intervals.

    Example: audit compare runs/monday runs/tuesday
    """
    from ...reports import compare as module

    module.show(one, other, json, every)


app.command()(models)
app.command()(attacks)
app.command()(accountants)


def main() -> None:
    """Console entry point: one line for bad input (exit 2), one for Ctrl-C and for what the machine refuses (exit 3).

    Whatever else goes wrong, in a user's model or in here, ends with its traceback and 3: exit code 1 says "refuted" and 0 "not
    refuted", and neither may come from code that broke or left.
    """
    warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded: small products on busy cores take minutes otherwise
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # torch's large tensors in huge pages: rows of large graphs lie anywhere
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a letter that the terminal lacks is no reason to fail
    for stop in (signal.SIGTERM, signal.SIGHUP) if os.name == "posix" else ():
        if signal.getsignal(stop) is signal.SIG_DFL:  # nohup ignores one, and means it
            signal.signal(stop, signal.default_int_handler)  # a cancelled job and a lost terminal end as cleanly as Ctrl-C
    try:
        code = app(standalone_mode=False)
        if code == 130:  # what typer makes of Ctrl-C
            raise KeyboardInterrupt
    except (typer.Abort, KeyboardInterrupt):
        code = said("Stopped. The same command resumes; finished parts are kept.", 3)
    except (OSError, MemoryError) as fault:
        what = f"{fault.filename}: {fault.strerror}" if isinstance(fault, OSError) and fault.filename else str(fault)
        code = said(f"audit: {what}. Finished parts are kept; once that is mended, the same command resumes.", 3)
    except ValueError as fault:
        code = said(f"audit: {fault}", 2)
    except (Exception, SystemExit) as fault:
        if type(fault).__module__.startswith(("click", "typer")):
            code = said(f"audit: {misused(fault)}", 2)
        elif isinstance(fault.__context__, BrokenPipeError):  # how rich leaves when nobody reads on
            code = 3
        else:
            traceback.print_exc()
            code = said(
                f"audit: {type(fault).__name__} in the code above. Finished parts are kept; nothing is proved or refuted.", 3
            )
    sys.exit(code if isinstance(code, int) else 0)


def misused(fault: Any) -> str:
    """What typer finds wrong with the command line: the option, what was given for it, and where an example is."""
    names = getattr(getattr(fault, "param", None), "opts", [])
    given = [word for name, word in pairwise(sys.argv) if name in names]
    given += [word.partition("=")[2] for word in sys.argv if word.partition("=")[0] in names and "=" in word]
    if given and fault.message:
        what = f"{names[0]} {given[-1]}: {fault.message[0].lower()}{fault.message[1:]}"
    else:
        what = fault.format_message() if hasattr(fault, "format_message") else str(fault)
    context = getattr(fault, "ctx", None)
    return f"{what.rstrip('.')}. `{context.command_path} --help` has an example." if context else what


def said(line: str, code: int) -> int:
    print(line, file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
