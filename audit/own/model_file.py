"""Loads a user's own model: a program in any language, a function, or a class in a Python file."""

import importlib.machinery
import importlib.util
import inspect
import pickle
import sys
import traceback
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from ...accounting.arguments import is_number, is_whole, shown, words
from ...accounting.claim import Unit
from ...accounting.events.well_formed import check_ledger
from ...models.base import Model
from ...models.capabilities import Effort, effort
from ...models.errors import Stopped, one_line, raised, raising
from ...models.looped import MODES, Looped, takes
from ...models.recorder import recordable
from ...models.systems import SYSTEMS
from .contained import contained
from .programs.program import External
from .stated_claim import stated

PROTOCOL = ("name", "mode", "unit", "releases", "public", "ledger", "with_noise", "printed", "footprint", "fit")
BY_LOOPED = "A function train(graph, seed) becomes a model by Looped(train)."
LONGEST_NAME = 100  # characters; names of evidence files and figures contain the name of the model
OPTIONAL = ("claim", "offers", "keep", "max_degree", "effort")


class AsItStands(importlib.machinery.SourceFileLoader):
    """Compiles a file as it stands. Python's cache takes a file for unchanged if its size and the second of its change are."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def load_model(address: str) -> Any:
    """The object at FILE.py:Name. Raises ValueError if there is none or the file raises, and Stopped if it is interrupted."""
    file, _, name = address.rpartition(":")
    path = Path(file)
    if not name or path.suffix != ".py":
        raise ValueError(f"model={address}: must be FILE.py:Name. For the systems of this package see `audit models`.")
    if not path.is_file():
        raise ValueError(f"model={address}: the {'path is a folder' if path.is_dir() else 'file does not exist'}.")
    if hides(path):
        raise ValueError(f"model={address}: the file has the name of the module {path.stem}, which it would hide. Rename it.")
    loader = AsItStands(path.stem, str(path))
    module = importlib.util.module_from_spec(importlib.machinery.ModuleSpec(path.stem, loader, origin=str(path)))
    module.__file__ = str(path)
    sys.modules[path.stem] = module  # dataclasses look up their module here, and worker processes import it by this name
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        with contained(), recordable():  # so that draws of generators that the module creates can be recorded later
            loader.exec_module(module)
    except KeyboardInterrupt:
        raise Stopped(f"The import of {path} was interrupted.") from None
    except BaseException as fault:
        raise ValueError(f"model={address}: {blamed(fault, path)}") from None
    if not hasattr(module, name):
        raise ValueError(f"model={address}: the file has no such object. {_models(module)}")
    return getattr(module, name)


def hides(path: Path) -> bool:
    """Whether a file, as a module of its name, would take the place of one of Python's modules or of another loaded module."""
    spec: Any = getattr(sys.modules.get(path.stem), "__spec__", None)
    other = spec is not None and not isinstance(spec.loader, AsItStands)
    return path.stem in sys.stdlib_module_names or (other and Path(spec.origin or "").resolve() != path.resolve())


def _models(module: ModuleType) -> str:
    """A sentence with the names of the models that a file makes or defines."""
    made = {name: value for name, value in vars(module).items() if callable(getattr(value, "fit", None))}
    own = [name for name, value in made.items() if not isinstance(value, type) or value.__module__ == module.__name__]
    return f"Its models: {', '.join(own)}." if own else "Nothing in it has a method `fit`."


def blamed(fault: BaseException, path: Path) -> str:
    """The exception in one line, with the last line of the user's file in its traceback. The caller names the file."""
    lines = [
        frame.lineno for frame in traceback.extract_tb(fault.__traceback__) if Path(frame.filename).resolve() == path.resolve()
    ]
    at = f"line {lines[-1]}: " if lines else ""
    if isinstance(fault, SyntaxError) and fault.filename:  # a traceback does not show the place of a SyntaxError
        at = f"{'' if Path(fault.filename) == path else f'{fault.filename}, '}line {fault.lineno}: "
    return f"{at}{type(fault).__name__}: {one_line(fault)}"


def is_built_in(model: Model) -> bool:
    """Whether the model is a system of this package or a subclass of one."""
    ours = Model.__module__.rpartition(".")[0]
    modules = {base.__module__ for base in type(model).__mro__} - {Model.__module__, Looped.__module__}
    return any(module.startswith(f"{ours}.") for module in modules)


def own_models(program: External | None, model: str | None) -> dict[str, Any]:
    """name -> a function (mode, facts, private) -> the user's own model. Raises ValueError if the model cannot be made."""
    found: dict[str, Any] = {}
    if program is not None:
        check_folder_name(program.name, "target")
        found[program.name] = lambda mode, facts, private: program
    if model is not None:
        made = load_model(model)
        if callable(made):
            try:
                with contained():
                    made = made()
            except TypeError as fault:
                way = f"Give its fields defaults. {BY_LOOPED}"
                raise ValueError(f"model={model}: cannot be constructed without arguments ({fault}). {way}") from None
            except (Exception, SystemExit) as fault:
                raise ValueError(f"model={model}: {blamed(fault, Path(model.rpartition(':')[0]))}") from None
        checked(made, f"model={model}")
        if made.name in found:
            raise ValueError(f"model={model}: is called '{made.name}', like the program of --target. Give it another name.")
        found[made.name] = lambda mode, facts, private: made
    return found


def check_folder_name(name: str, where: str) -> None:
    """Raises ValueError, which begins with `where`, for a name that cannot be a folder or that a terminal does not show."""
    if "/" in name or not name.strip(". ") or not name.isprintable() or len(name) > LONGEST_NAME:
        way = f"Use letters, at most {LONGEST_NAME}."
        raise ValueError(f"{where}: is called {shown(name)}, which is not a valid folder name for its runs. {way}")


def checked(made: Any, where: str) -> None:
    """Raises ValueError, which begins with `where`, for an object that is not a model, has a name that a run cannot use, states a
    claim that no audit tests, or has an attribute of another type.
    """
    for name in (*PROTOCOL, *OPTIONAL):
        if fault := raising(made, name):
            raise ValueError(f"{where}: `{name}` raises: {fault}")
    if not isinstance(made, Model):
        absent = ", ".join(n for n in PROTOCOL if not hasattr(made, n))
        way = BY_LOOPED if inspect.isfunction(made) else "docs/own-class.md says what each of them is."
        raise ValueError(f"{where}: lacks {absent}. {way}")
    if not isinstance(made.name, str):
        raise ValueError(f"{where}: name={made.name!r}: must be a text.")
    if not words(f"{where}: releases", made.releases, '("posteriors",)'):
        raise ValueError(f'{where}: releases={made.releases!r}: must be names of arrays, such as ("posteriors",).')
    words(f"{where}: public", made.public, '("The features are public.",)')
    check_ledger(made.ledger, f"{where}: ledger")
    if made.mode not in MODES:
        raise ValueError(f"{where}: mode={made.mode!r}: must be 'sound', or 'paper' for a model as it was published.")
    if made.unit not in tuple(Unit):
        raise ValueError(f"{where}: unit={made.unit!r}: must be one of {', '.join(Unit)}.")
    if made.name in SYSTEMS and not is_built_in(made):
        name = f"name='own-{made.name}'"
        way = f"write {f'Looped(…, {name})' if isinstance(made, Looped) else name}"
        raise ValueError(f"{where}: is called '{made.name}', like a system of this package. Give it another name: {way}.")
    check_folder_name(made.name, where)
    stated(made, where)
    for name in ("offers", "keep"):
        if hasattr(made, name):
            words(f"{where}: {name}", getattr(made, name), '("posteriors",)')
    bound = getattr(made, "max_degree", 0)
    if bound is not None and not (is_whole(bound) and bound >= 0):
        raise ValueError(f"{where}: max_degree={shown(bound)}: must be a whole number of at least 0; 0 means no bound.")
    if not isinstance(found := effort(made), Effort):
        raise ValueError(f"{where}: effort={shown(found)}: must be a gnnaudit.Effort, such as Effort(thorough=False).")
    check_methods(made, where)


def check_methods(made: Any, where: str) -> None:
    """Raises ValueError, which begins with `where`, if `fit` or `footprint` cannot be called with what they are given, or if
    `with_noise` or `printed` raises or returns an object of another type.
    """
    for name, given in (("fit", ("worlds", "device")), ("footprint", ("graph",))):
        if not takes(getattr(made, name), len(given)):
            raise ValueError(f"{where}: {name}: must be a method, called as {name}({', '.join(given)}).")
    try:
        noisier = made.with_noise(1.0)
    except ValueError:  # a model without noise may refuse a noise level
        noisier = made
    except (Exception, SystemExit) as fault:  # a user's method may raise any error
        raise ValueError(f"{where}: with_noise(1.0) raises: {raised(fault)}") from None
    if not isinstance(noisier, Model):
        way = "must be a model. A model whose noise is fixed returns itself."
        raise ValueError(f"{where}: with_noise(1.0) returns {shown(noisier)}: {way}")
    try:
        printed = made.printed(1e-5)
    except (Exception, SystemExit) as fault:
        raise ValueError(f"{where}: printed(1e-05) raises: {raised(fault)}") from None
    if printed is not None and not (is_number(printed) and printed >= 0):
        raise ValueError(f"{where}: printed(1e-05) returns {shown(printed)}: must be None or a number of at least 0.")


def kept_here(model: Model) -> str:
    """Why a model cannot be sent to a worker process, such as one with a nested function; "" if it can."""
    try:
        pickle.dumps(model)
    except Exception as fault:  # pickle raises almost anything, and so may a user's class
        return f"{model.name}: cannot be sent to a worker process ({one_line(fault)})"
    return ""
