"""The folder in which Numba stores compiled code. It does not depend on where the sources lie."""

from numba.core.caching import UserProvidedCacheLocator


class ByContent(UserProvidedCacheLocator):
    """Stores the code of every file in one folder below CACHE_DIR, which `kept` names by a hash of all sources. So all checkouts
    and environments of a user that hold the same sources share their compiled code.
    """

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        return "compiled"
