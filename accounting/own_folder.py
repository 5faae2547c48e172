"""Checks that only this user can write to a folder or file. Caches are read from such folders only."""

import os
import stat
from pathlib import Path
from typing import BinaryIO

OTHERS = stat.S_IWGRP | stat.S_IWOTH


def make_own(folder: Path) -> Path:
    """Makes the folder if it is missing, so that only this user can access it, and returns it.

    Raises PermissionError with the reason if `shared` gives one, and OSError if the folder cannot be made.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if reason := shared(folder):
        raise PermissionError(f"{folder}: {reason}")
    return folder


def shared(folder: Path) -> str | None:
    """The reason why a user other than this one and root could change the contents of the folder, or None.

    The folder must belong to the user, must not be a symbolic link, and nobody else may write to it. Each folder above must
    belong to the user or to root. If others may write to a folder above, it must have the sticky bit, as /tmp does, so that they
    cannot replace its contents. On Windows the result is always None.
    """
    if not hasattr(os, "getuid"):
        return None  # the access lists of a user's profile protect the folder
    if folder.is_symlink():
        return "is a symbolic link"
    for place in (folder, *folder.absolute().parents, *folder.resolve().parents):
        about = place.stat()
        if about.st_uid not in ({os.getuid()} if place == folder else {os.getuid(), 0}):
            return f"{_named(place, folder)}belongs to another user"
        if about.st_mode & _by_others(about) and (place == folder or not about.st_mode & stat.S_ISVTX):
            return f"{_named(place, folder)}can be written by others"
    return None


def read_own(path: Path) -> bytes:
    """The contents of a file that only this user can write. Raises OSError as `open_own`."""
    with open_own(path) as file:
        return file.read()


def open_own(path: Path) -> BinaryIO:
    """A file that only this user can write, opened for reading. Raises OSError for a file that others own or can write, for a
    symbolic link and for a missing file.
    """
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    about, reason = os.fstat(handle), None
    if not stat.S_ISREG(about.st_mode):
        reason = "is not a file"
    elif hasattr(os, "getuid") and about.st_uid != os.getuid():
        reason = "belongs to another user"
    elif hasattr(os, "getuid") and about.st_mode & _by_others(about):
        reason = "can be written by others"
    if reason:
        os.close(handle)
        raise PermissionError(f"{path}: {reason}")
    return open(handle, "rb")


def _named(place: Path, folder: Path) -> str:
    return "" if place == folder else f"{place} "


def _by_others(about: os.stat_result) -> int:
    """The mode bits that let other users write to the file. The group's bit is left out if this user is the only member of the
    group.
    """
    import grp
    import pwd

    try:
        group, user = grp.getgrgid(about.st_gid), pwd.getpwuid(os.getuid())
    except KeyError:  # the user or group has no name, which happens in a container
        return OTHERS
    private = group.gr_name == user.pw_name and user.pw_gid == about.st_gid and set(group.gr_mem) <= {user.pw_name}
    return stat.S_IWOTH if private else OTHERS
