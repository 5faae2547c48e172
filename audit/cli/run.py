"""`audit run`: reads the options of the main command into a plan, and carries it out."""

from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from ..own.programs.files import recipe_names
from ..planning.plan import MODELS, Plan
from .options import TRUST, Delta, Json, Param, Quiet, Verbose, Words

Number = int | None


def run(
    plan: Annotated[Path | None, typer.Argument(help="A TOML file whose table `run` holds the options below.")] = None,
    data: Annotated[Words, Option(help="Data set by name, or a path. Default: campus. See `audit data list`.")] = None,
    data_dir: Annotated[Words, Option(help="Folder of the data sets. Downloads are stored there.")] = None,
    trust: Annotated[bool | None, Option("--trust", help=TRUST)] = None,
    models: Annotated[Words, Option(help=f"Systems, comma-separated. Default: {','.join(MODELS)}. See `audit models`.")] = None,
    mode: Annotated[Words, Option(help="paper (as published), sound (as it can be proved) or both. Default: sound.")] = None,
    epsilon: Annotated[
        Words, Option(help="Claimed epsilons in nats, comma-separated; inf trains without noise. Default: 1,8,inf.")
    ] = None,
    delta: Delta = None,
    unit: Annotated[Words, Option(help="directed-edge, undirected-edge, node or features. Default: each model's own.")] = None,
    param: Param = None,
    attacks: Annotated[
        Words,
        Option(
            help="Membership attacks, comma-separated, or all or none. Default: those that train no classifier. "
            "See `audit attacks`."
        ),
    ] = None,
    games: Annotated[
        Words,
        Option(
            help="Secrets that the membership attacks infer: label, node, edge, comma-separated, or all or none. Each trains "
            "shadow and target models. Default: all."
        ),
    ] = None,
    audits: Annotated[Words, Option(help="Audits, comma-separated, or all or none. Default: all. See `audit audits`.")] = None,
    rounds: Annotated[
        Number, Option(help="Rounds of each audit that plays a game: one training each, with up to 1000 canaries. Default: 10.")
    ] = None,
    minutes: Annotated[
        float | None,
        Option(
            help="Minutes for the audit blackbox on each claim, and for the audit distinguisher. The audit blackbox then adds "
            "rounds until it refutes the claim or could detect the violation of --notices. Default: blackbox plays --rounds; "
            "distinguisher takes 20 seconds, or the time of the audits before it if that is longer, at most 60 seconds."
        ),
    ] = None,
    shadows: Annotated[Number, Option(help="Shadow models: runs whose membership bits the attacker knows. Default: 8.")] = None,
    targets: Annotated[Number, Option(help="Target models: runs that are attacked. Default: 4.")] = None,
    repeats: Annotated[Number, Option(help="Trainings over which accuracy is averaged. Default: 10.")] = None,
    seed: Annotated[
        Words, Option(help="Any word. Makes the run reproducible, noise included; whoever knows it can subtract the noise.")
    ] = None,
    out: Annotated[Words, Option(help="Folder of the run. Default: a new folder in runs/, named by the time.")] = None,
    mlflow: Annotated[Words, Option(help="MLflow tracking URI, or none. Default: SQLite beside the runs.")] = None,
    device: Annotated[Words, Option(help="cpu or cuda. Default: cpu.")] = None,
    memory: Annotated[
        Words, Option(help="Most memory that one training may need besides the graph, in MiB, GiB or TiB. Default: 8GiB.")
    ] = None,
    jobs: Annotated[Number, Option(help="Worker processes. Default: one for each core that this process may use.")] = None,
    ray: Annotated[Words, Option(help="Address of a Ray cluster, or local.")] = None,
    target: Annotated[
        Words, Option(help='A program of your own: "COMMAND {worlds} {out}", or its declaration: FILE.toml.')
    ] = None,
    recipe: Annotated[
        Words, Option(help=f"{', '.join(recipe_names())}: audit your checkout of that public repository. See docs/recipes.md.")
    ] = None,
    checkout: Annotated[Words, Option(help="Folder of that repository, for --recipe or a declaration.")] = None,
    python: Annotated[
        Words, Option(help="Python of the program's environment, for --recipe or a declaration. Default: the tool's own.")
    ] = None,
    target_timeout: Annotated[
        float | None, Option(help="Seconds for one training of the target, after which it is ended. Default: 3600.")
    ] = None,
    model: Annotated[Words, Option(help="A model of your own: FILE.py:Name.")] = None,
    record: Annotated[
        bool | None, Option("--record/--no-record", help="Record the mechanisms of a model of your own. Default: record.")
    ] = None,
    alpha: Annotated[float | None, Option(help="Largest probability of a false alarm in the whole run. Default: 0.05.")] = None,
    notices: Annotated[
        float | None, Option(help="The run must be able to detect noise that is too small by this factor. Default: 1.5.")
    ] = None,
    split: Annotated[Number, Option(help="Number of the public split of the nodes. Default: 0.")] = None,
    preset: Annotated[Words, Option(help="ci: minutes, for a pull request. nightly: every audit. Both use --alpha 1e-4.")] = None,
    fresh: Annotated[
        bool | None,
        Option(
            "--fresh",
            help="Replace the run in --out, even one with other options: train everything again, with new noise unless --seed is "
            "given.",
        ),
    ] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    json: Json = False,
) -> None:
    """Train models, attack them, bound epsilon from below, judge the claims and report. The main job.

    The same options with the same --out resume a run. If --out holds a run with other options, the command stops, unless you
    give --fresh.

    Exit codes: 0 no claim is refuted, and the tests of each claim could detect noise that is too small by the factor --notices;
    1 a claim is refuted, or its ledger does not prove it; 2 wrong use, or no model could be tested; 3 the run did not finish, or
    the verdict on a claim is inconclusive. A run without a claim ends with 0 and says so, even with --quiet.

    Example: audit run --data facebook100:JohnsHopkins55 --data-dir data --models gap,progap --mode both --epsilon 1,4
    """
    options = {name: value for name, value in locals().items() if name not in ("plan", "json", "quiet", "verbose")}
    from ..planning.plan import read

    if quiet and verbose:
        raise ValueError("--verbose: has no effect with --quiet, which prints verdicts alone. Leave one of them out.")
    asked = read(plan, options)
    refuse_idle(asked, options)
    if asked.device == "cuda" and asked.ray is None:
        import torch

        if not torch.cuda.is_available():
            raise ValueError("device=cuda: this machine has no CUDA device that torch can use. Leave --device out.")
    from ..run import run as run_plan

    raise typer.Exit(run_plan(asked, json=json, quiet=quiet, verbose=verbose))


def refuse_idle(asked: Plan, options: dict[str, Any]) -> None:
    """Raises ValueError for an option of the command line that has no effect together with the others.

    The options of a plan file may be idle, because a stored plan holds them all.
    """
    for switch, needs in (("attacks", ("shadows", "targets", "games")), ("audits", ("rounds",))):
        for name in needs:
            if getattr(asked, switch) == ("none",) and options[name] is not None:
                raise ValueError(f"--{name} {options[name]}: has no effect with {switch}=none. Leave it out, or choose {switch}.")
    if asked.ray is not None and options["jobs"] is not None:
        raise ValueError(f"--jobs {options['jobs']}: has no effect with --ray, whose cluster sets the workers. Leave one out.")
