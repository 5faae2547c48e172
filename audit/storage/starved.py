"""Recognises failures for lack of memory. A library that cannot load for lack of memory may raise many kinds of errors."""

import errno
from pathlib import Path

WORDS = ("map segment", "cannot allocate memory", "unable to allocate", "out of memory")
SHARE = 0.75  # if more than this share of the memory limit is in use, some kinds of errors count as lack of memory


def starved(fault: BaseException) -> str | None:
    """One sentence about the memory, if the lack of it caused an exception; else None."""
    seen: BaseException | None = fault
    while seen is not None:
        text = str(seen).lower()
        if isinstance(seen, MemoryError) or getattr(seen, "errno", None) == errno.ENOMEM or any(w in text for w in WORDS):
            return _sentence(seen)
        seen = seen.__cause__ or seen.__context__
    limit, used = address_space()
    if limit is not None and used > SHARE * limit and isinstance(fault, ImportError | SystemError | OSError | AttributeError):
        return _sentence(fault)
    return None


def address_space() -> tuple[int | None, int]:
    """The limit of `ulimit -v` in bytes, None without one, and how much of it this process uses."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        return (None if limit == resource.RLIM_INFINITY else limit), pages * resource.getpagesize()
    except (ImportError, OSError, ValueError):
        return None, 0


def _sentence(fault: BaseException) -> str:
    limit, _ = address_space()
    lines = str(fault).strip().splitlines() or [type(fault).__name__]
    what = next((line for line in lines if any(w in line.lower() for w in WORDS)), lines[0]).strip().rstrip(".")[:200]
    bounded = "" if limit is None else f" `ulimit -v` allows {limit >> 20}MiB."
    return f"not enough memory ({what}).{bounded} Use fewer --jobs, or allow more memory"
