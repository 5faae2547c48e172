"""The command line: the app, its short commands, and the handling of errors and signals.

Each command imports the libraries that it needs only when it runs.
"""

import errno
import io
import os
import shlex
import signal
import socket
import sys
import traceback
import warnings
from collections.abc import Callable
from itertools import islice, pairwise
from pathlib import Path
from typing import Annotated, Any

import typer

from ...models.errors import Stopped
from ..planning.limits import in_words
from ..storage.garbage import collect_rarely
from ..storage.starved import starved
from .account import account
from .bound import bound
from .contract import contract
from .data import app as data
from .findings import findings
from .lists import accountants, attacks, audits, models
from .options import Json, Mlflow
from .power import power
from .run import run
from .scan import scan
from .selftest import selftest

app = typer.Typer(
    help="Tests the privacy claims of differentially private graph neural networks.",
    invoke_without_command=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
COMMANDS: tuple[Callable[..., None], ...] = (
    run,
    account,
    bound,
    power,
    findings,
    scan,
    selftest,
    contract,
    models,
    attacks,
    audits,
    accountants,
)
AGAIN = "Nothing is proved or refuted; after the repair, give the same command again."
# errors that mean that the user named a wrong path, not that the machine failed
MISNAMED = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EACCES, errno.EPERM, errno.EROFS, errno.ENAMETOOLONG)
MISPLACED = (errno.ENOTDIR, errno.EISDIR, errno.EEXIST)  # a run's folder has a file in place of a folder, or the reverse
for command in COMMANDS:
    app.command()(command)
app.add_typer(data, name="data")


@app.callback()
def start(
    context: typer.Context, version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False
) -> None:
    if version:
        from importlib.metadata import version as installed

        print(f"gnnaudit {installed('gnnaudit')}")
    elif context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def report(run: Annotated[Path, typer.Argument(help="Folder of a run.")]) -> None:
    """Rebuild the HTML report of a run from its files.

    Example: audit report runs/monday
    """
    from ...reports.formats import html

    print(html.render(run))


@app.command()
def mirror(runs: Annotated[list[Path], typer.Argument(help="Folders of runs.")], mlflow: Mlflow = None) -> None:
    """Copy the results of runs into MLflow again, from the files of the runs.

    Exit codes: 0 all runs are in MLflow; 2 wrong use; 3 the store cannot be reached.

    Example: audit mirror runs/monday runs/tuesday
    """
    from ...reports.formats import mlflow_mirror as module

    reached = [run for run in runs if module.mirror(run, mlflow)]
    folders = [f"--mlflow {mlflow}"] if mlflow else dict.fromkeys(str(run.resolve().parent) for run in reached)
    ways = " ".join(f"`audit ui {folder}` shows {'them' if len(folders) == 1 else 'its runs'}." for folder in folders)
    counted = f"{len(reached)} of {len(runs)} runs are" if len(runs) > 1 else f"The run is{'' if reached else ' not'}"
    print(f"{counted} in MLflow.{f' {ways}' if reached else ''}", file=sys.stderr)
    raise typer.Exit(0 if len(reached) == len(runs) else 3)


@app.command()
def ui(
    runs: Annotated[Path, typer.Argument(help="Folder that holds the runs.")] = Path("runs"),
    mlflow: Mlflow = None,
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port on this machine.")] = 5000,
) -> None:
    """Serve the MLflow UI on the store of the runs, and print the address of the page with all verdicts.

    Example: audit ui runs --port 5001
    """
    from ...reports.formats.mlflow_mirror import default_uri, refuse_unservable, ui_address, ui_command

    if mlflow is None and not runs.is_dir():
        raise ValueError(f"{runs}: no such folder. {where_to_look()}")
    if mlflow is None and (runs / "results.json").exists():
        raise ValueError(
            f"{runs}: is the folder of one run. Name the folder that holds the runs: `audit ui {runs.resolve().parent}`."
        )
    if mlflow is None and not (runs / "mlflow.db").is_file():
        stored = f"`audit run` makes it, and so does `audit mirror {runs}/RUN`"
        raise ValueError(f"{runs}: has no MLflow store yet; {stored}. {where_to_look()}")
    refuse_unservable(mlflow or default_uri(runs))
    with socket.socket() as probe:
        if probe.connect_ex(("127.0.0.1", port)) == 0:
            raise ValueError(f"port={port}: is in use. Choose another with --port.")
    print(f"{ui_address(runs, mlflow, port)} (Ctrl-C ends the server)", file=sys.stderr)
    command = ui_command(runs, mlflow, port)
    os.execvp(command[0], command)  # replaces this process, so ending this process ends the server


def where_to_look() -> str:
    """Says where the stores of runs are: names those in the working directory and its folders, or else says how to find one."""
    rule = "A store lies beside its runs: after `audit run --out FOLDER/NAME` it is in FOLDER."
    stores = (folder for folder in (Path(), *sorted(Path().iterdir())) if (folder / "mlflow.db").is_file())
    found = [f"`audit ui {shlex.quote(str(folder))}`" for folder in islice(stores, 3)]
    return f"{rule} {'Try' if found else 'Write'} {' or '.join(found) or '`audit ui FOLDER`'}."


@app.command()
def compare(
    one: Annotated[Path, typer.Argument(help="Folder of the run to compare with.", metavar="BEFORE")],
    other: Annotated[Path, typer.Argument(help="Folder of the run to compare.", metavar="AFTER")],
    every: Annotated[
        bool, typer.Option("--all", help="Also show unchanged verdicts and differences that chance explains.")
    ] = False,
    json: Json = False,
) -> None:
    """Compare two runs: which verdicts changed, and which attacks succeed more or less often, with 95 % intervals.

    A claim is identified by model, mode, unit and epsilon. A claim with a larger delta counts as another, weaker claim. A change
    of an attack alone does not change the exit code.

    Exit codes: 0 no verdict is worse; 1 a verdict is worse; 2 wrong use; 3 a claim of BEFORE is not in AFTER, or the two runs
    have nothing in common. The command names the claims behind 1 and 3.

    Example: audit compare runs/monday runs/tuesday
    """
    from ...reports import compare as module

    raise typer.Exit(module.show(one, other, json, every))


def main() -> None:
    """The console entry point. Bad input prints one line, and the exit code is 2. Ctrl-C and errors of the machine print one
    line, and the exit code is 3.

    Any other exception, in a user's model or in this package, prints its traceback, and the exit code is 3. Exit code 1 means
    "refuted" and 0 "not refuted". A run that crashed, or whose model called sys.exit, must return neither.
    """
    collect_rarely()  # before the libraries of a command are imported
    warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
    # set before torch is loaded, because its thread pools take minutes on busy cores
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    # makes torch put large tensors in huge pages, which saves TLB misses on large graphs
    os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a letter that the terminal lacks must not end the run
    for stop in (signal.SIGTERM, signal.SIGHUP) if os.name == "posix" else ():
        if signal.getsignal(stop) is signal.SIG_DFL:  # under nohup SIGHUP stays ignored
            signal.signal(stop, signal.default_int_handler)  # a cancelled job and a closed terminal are handled like Ctrl-C
    try:
        refuse_words(sys.argv[1:])
        code = app(standalone_mode=False)
        if code == 130:  # typer's code for Ctrl-C
            raise KeyboardInterrupt
    except (typer.Abort, KeyboardInterrupt):
        code = failed("Stopped.", 3)
    except Stopped as how:
        code = failed(f"Stopped. {how}", 3)
    except (OSError, MemoryError) as fault:
        named = f"{fault.filename}: {fault.strerror}" if isinstance(fault, OSError) and fault.filename else str(fault)
        what = named if isinstance(fault, MemoryError) and named else starved(fault) or named
        if again := getattr(fault, "__notes__", []):  # only `audit run` keeps parts; its note says how to resume
            misplaced = isinstance(fault, OSError) and fault.errno in MISPLACED
            code = failed(f"audit: {what}. Finished parts are kept; after the repair, {again[0]} resumes.", 2 if misplaced else 3)
        elif isinstance(fault, FileNotFoundError) and not fault.filename:
            code = failed("audit: the working directory does not exist any more. Change to another folder.", 2)
        elif isinstance(fault, OSError) and fault.filename and fault.errno in MISNAMED:
            code = failed(f"audit: {what}. Name another file or folder, or repair this one.", 2)
        else:
            code = failed(f"audit: {what}. {AGAIN}", 3)
    except ValueError as fault:
        code = failed(f"audit: {fault}", 2)
    except BaseException as fault:
        if type(fault).__module__.startswith(("click", "typer")):
            code = failed(f"audit: {misused(fault)}", 2)
        elif lack := starved(fault):
            code = failed(f"audit: {lack}. Finished parts of a run are kept; after the repair, the same command resumes.", 3)
        elif isinstance(fault.__context__, BrokenPipeError):  # rich calls sys.exit if the program that reads its output has ended
            code = 3
        else:
            traceback.print_exc()
            code = failed(
                f"audit: {type(fault).__name__} in the code above. Finished parts are kept; nothing is proved or refuted.", 3
            )
    sys.exit(code if isinstance(code, int) else 0)


def refuse_words(words: list[str]) -> None:
    """Raises ValueError for a word of the command line that is empty or no UTF-8, and for an option with an empty value."""
    for before, word in pairwise(["", *words]):
        option, equals, value = word.partition("=")
        named = option if equals else before if before.startswith("--") else "an argument"
        if word != word.encode(errors="replace").decode():
            raise ValueError(f"{named} {word!a}: is no text in UTF-8. Type it again, or rename the file.")
        if word == "" or (option.startswith("--") and equals and not value):
            raise ValueError(f"{named} '': is empty. Give a value, or leave it out.")


def misused(fault: Any) -> str:
    """The message for a wrong command line: the option, its value, the mistake, and the command whose help has an example."""
    names = getattr(getattr(fault, "param", None), "opts", [])
    given = [word for name, word in pairwise(sys.argv) if name in names]
    given += [word.partition("=")[2] for word in sys.argv if word.partition("=")[0] in names and "=" in word]
    if given and fault.message:
        message = in_words(fault.message)
        what = f"{names[0]} {given[-1]}: {message[0].lower()}{message[1:]}"
    else:
        what = fault.format_message() if hasattr(fault, "format_message") else str(fault)
    context = getattr(fault, "ctx", None)
    if context and not what:  # a group of commands without a command
        what = f"{context.command_path} needs a command: {', '.join(context.command.commands)}"
    what = what if what.endswith("?") else f"{what.rstrip('.')}."
    return f"{what} `{context.command_path} --help` has an example." if context else what


def failed(line: str, code: int) -> int:
    """Prints the line on stderr and returns the exit code."""
    print(line, file=sys.stderr)
    return code


if __name__ == "__main__":
    main()
