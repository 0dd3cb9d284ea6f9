"""Files that are whole or not there, also when the process is killed or the power fails."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from heedful.core.errors import HeedfulError
from heedful.core.regular_file import regular_file

MAX_TEXT_BYTES = 1 << 26
PART = ".part"  # the end of the name of what is being written
RESUME_HINT = "What is done is kept: run the same command again to resume"


def write_file(path: Path, content: bytes | str, *, shared: bool = False) -> None:
    """Beside its place, synced, then renamed into it. `shared`: several processes may write it at once.

    The folders above it are made. What is no regular file (/dev/stdout) is written as it is.
    """
    data = content.encode() if isinstance(content, str) else content
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        path.write_bytes(data)
        return
    try:
        path = path.resolve()  # a link stays one
    except RuntimeError:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path)) from None
    beside = path.with_name(f".{path.name}{PART}")
    if shared:
        beside = beside.with_name(f".{path.name}.{os.getpid()}{PART}")
    try:
        write_synced(beside, data)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    beside.replace(path)
    sync(path.parent)


def write_inside(folder: Path, name: str, content: bytes | str) -> None:
    """A file of a folder that a stranger may have made: nothing is written through a link, and what is no
    regular file is not touched."""
    path = folder
    for part in PurePosixPath(name).parts:
        path = path / part
        if path.is_symlink():
            raise _leads_out(folder, part)
    if path.exists() and not path.is_file():
        raise HeedfulError(f"{folder} is refused", f"{name} is not a regular file", "Remove it")
    write_file(path, content)


def refuse_links(folder: Path, names: Iterable[str]) -> None:
    """Neither these names of the folder nor anything below them is a link: what is written stays in it."""
    for name in names:
        if (folder / name).is_symlink():
            raise _leads_out(folder, name)
        for above, folders, files in os.walk(folder / name):  # does not follow links
            for each in (Path(above, one) for one in folders + files):
                if each.is_symlink():
                    raise _leads_out(folder, str(each.relative_to(folder)))


def _leads_out(folder: Path, name: str) -> HeedfulError:
    why = f"{name} is a link, and a link can lead out of it"
    return HeedfulError(f"{folder} is refused", why, "Remove the link")


def write_synced(path: Path, *contents: bytes | memoryview) -> None:
    """A new file, on disk when it returns. What has this name goes first, so no link is followed."""
    path.unlink(missing_ok=True)
    with path.open("xb") as file:
        for content in contents:
            file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync(folder: Path) -> None:
    """A rename is on disk when the folder is."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_text(path: str | Path) -> str:
    """A whole file of UTF-8, without a byte order mark; a device that never ends is not read to its end."""
    try:
        with Path(path).open("rb") as file:
            content = file.read(MAX_TEXT_BYTES + 1)
        if len(content) > MAX_TEXT_BYTES:
            raise HeedfulError(f"{path} is too large", f"it has over {MAX_TEXT_BYTES:,} bytes")
        return content.decode("utf-8-sig")
    except OSError as error:
        raise HeedfulError(f"cannot read {path}", error.strerror or str(error)) from None
    except UnicodeDecodeError as error:
        raise HeedfulError(f"{path} is not UTF-8 text", f"byte {error.start}") from None


def read_regular(path: Path, most: int) -> bytes:
    """The content of a regular file of at most `most` bytes."""
    try:
        with regular_file(path) as file:
            if os.fstat(file.fileno()).st_size > most:
                raise HeedfulError(f"{path} is too large", f"the limit is {most:,} bytes")
            return file.read(most)
    except OSError as error:
        raise HeedfulError(f"cannot read {path}", error.strerror or str(error)) from None


def check_writable(path: Path) -> None:
    """Refuse, before a long run, a place that cannot be written to. A disk may still fill up later."""
    try:
        above = path
        while not above.exists() and above.parent != above:
            above = above.parent
        if above != path and not above.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if not os.access(above, os.W_OK):
            raise PermissionError(errno.EACCES, f"{above} cannot be written to")
    except OSError as error:
        raise HeedfulError(
            f"cannot write {path}", error.strerror or str(error), "Name another place"
        ) from None


def check_folder(path: Path) -> None:
    """Refuse, before any work, a folder that cannot be written to, and what is no folder."""
    check_writable(path)
    if path.exists() and not path.is_dir():
        raise HeedfulError(f"cannot write to {path}", "it is a file, not a folder", "Name another place")


def check_file(path: Path) -> None:
    """The same for a file."""
    check_writable(path)
    if path.is_dir():
        raise HeedfulError(f"cannot write {path}", "it is a folder", "Name a file in it")


@contextmanager
def writing(path: Path, fix: str = RESUME_HINT) -> Iterator[None]:
    """A disk that is full, or gone, is told in one line."""
    try:
        yield
    except OSError as error:
        raise HeedfulError(f"cannot write to {path}", error.strerror or str(error), fix) from None


@contextmanager
def locked(folder: Path, work: str, written: Iterable[str] = ()) -> Iterator[None]:
    """Alone in a folder, which is made; what a killed process left half written goes.

    written   files and folders that the work writes: none of them may be a link
    """
    from filelock import FileLock, Timeout

    with writing(folder, "Name another folder"):
        folder.mkdir(parents=True, exist_ok=True)
        refuse_links(folder, (".lock", *written))
        lock = FileLock(folder / ".lock", timeout=0)
        try:
            lock.acquire()
        except Timeout:
            raise HeedfulError(
                f"another {work} is writing to {folder}", fix="Wait for it, or name another"
            ) from None
    try:
        with writing(folder):
            for left in folder.glob(f".*{PART}"):
                left.unlink()
        yield
    finally:
        lock.release()
