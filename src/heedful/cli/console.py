"""What every command shares: reading text, quiet libraries, progress on stderr, one JSON document on stdout.

Nothing here imports torch; rich is imported when something is drawn.
"""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from heedful.core.errors import HeedfulError
from heedful.core.numbers import duration
from heedful.core.progress import Report, Step
from heedful.io.files import read_text as read_file

if TYPE_CHECKING:
    from rich.console import Console

PATIENCE = 10.0  # seconds: a run that takes longer says so before it starts, and where it stands
LIMIT = 10_000_000  # characters; a model's own window is far smaller and is checked by the model
# how files of pictures begin, in the order of FORMATS of heedful.modalities.image_files
PICTURE_STARTS = (b"\x89PNG", b"\xff\xd8\xff", b"RIFF", b"GIF8", b"BM", b"II*\0", b"MM\0*", b"P5", b"P6")
MODEL_NAME = re.compile(r"zoo:[\w.-]+")  # as a whole text, it was meant for --model


def silence_libraries() -> None:
    """Libraries print to stderr what concerns developers; a command says only what concerns its user."""
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if not sys.warnoptions:
        warnings.simplefilter("ignore")


def print_stderr(message: str) -> None:
    """A line for the reader, beside the result: on stderr."""
    print(message, file=sys.stderr)


def say_written(run: Path | None, *files: Path | None, quiet: bool = False) -> None:
    """Beside a result: which files were written, and how to open the run that was saved."""
    if quiet:
        return
    for file in filter(None, files):
        print_stderr(f"wrote {file}")
    if run is not None:
        print_stderr(f"saved {run} (open it with: heedful report {shlex.quote(str(run))})")


def reproduce(command: str | None, quiet: bool) -> None:
    """The last line beside a result: what makes the same again."""
    if command and not quiet:
        print_stderr(f"Reproduce this: {command}")


def put_json(data: Any) -> None:
    """Exactly one JSON document on stdout; ASCII where the terminal's encoding is not UTF-8."""
    from heedful.io.json_codec import json_text

    utf8 = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"
    print(json_text(data, indent=1, ascii_only=not utf8))


def put_csv(rows: list[dict[str, Any]]) -> None:
    """Rows with the same keys as CSV on stdout."""
    from heedful.io.csv_text import csv_text

    print(csv_text(list(rows[0]), (row.values() for row in rows)), end="")


def console(*, stderr: bool = False) -> Console:
    from rich.console import Console

    # rich keeps bold and dim under NO_COLOR; plain means plain
    system: Any = None if os.environ.get("NO_COLOR") else "auto"
    return Console(stderr=stderr, highlight=False, markup=False, color_system=system)


def put_result(result: Any, shape: str, html: Path | None = None, verbose: bool = False, **more: Any) -> None:
    """A result as JSON, CSV or text on stdout, and as a report where one is named; `more` is for the JSON."""
    if html:
        write(html, result.page())
    if shape == "json":
        put_json(result.to_dict() | more)
    elif shape == "csv":
        put_csv(result.table())
    else:
        put_document(result.document(), verbose, hint=not html)


def put_document(document: Any, verbose: bool = False, hint: bool = True) -> None:
    """In the terminal; with `hint` the last line says how to see what is left out."""
    from heedful.cli.options import MORE
    from heedful.reports import terminal

    terminal.show(document, console(), verbose, more=MORE if hint else "")


def read_text(text: str | None, what: str = "text") -> str:
    """The argument, or standard input for "-" or when it is piped and no argument is given."""
    if text is None or text == "-":
        if text is None and sys.stdin.isatty():
            raise HeedfulError(
                f"no {what} was given", fix=f"Type it in quotes, or pipe it: echo {what} | heedful"
            )
        text = _decoded(_piped())
    elif MODEL_NAME.fullmatch(text):
        raise HeedfulError(
            f"no {what} was given", f"{text} is a model", f"Name a model with --model: --model {text}"
        )
    return _checked(text, what)


def _checked(text: str, what: str = "text") -> str:
    """Refuses a text that no model can read."""
    if not text.strip():
        raise HeedfulError(f"the {what} is empty", fix="Give at least one word")
    if len(text) > LIMIT:
        raise HeedfulError(
            f"the {what} has over {LIMIT:,} characters", "no model reads that much", "Shorten it"
        )
    try:
        text.encode()
    except UnicodeEncodeError:
        raise HeedfulError(f"the {what} is not valid UTF-8", fix="Convert it to UTF-8 first") from None
    return text


def read_input(text: str | None, pair: str | None, chat: str | None) -> Any:
    """What is explained: a text, a pair of texts, the messages of a chat, or the bytes of a picture."""
    if chat and (text or pair):
        raise HeedfulError("--chat takes the place of TEXT and --pair", fix="Give one of them")
    if chat:
        return read_chat(chat)
    if text in (None, "-") and pair is None and not sys.stdin.isatty():
        content = _piped()
        result = _picture(content) or _checked(_decoded(content))
    else:
        result = read_text(text)
    return result if pair is None else (result, read_text(pair, "second text"))


def captions(given: str | None) -> list[str] | None:
    """--labels: captions that are separated by commas; those with a comma inside are in quotes."""
    if given is None:
        return None
    try:
        (parts,) = csv.reader([" ".join(given.split())], skipinitialspace=True, strict=True)
    except (csv.Error, ValueError):
        raise HeedfulError(
            f"cannot read --labels {given}",
            "the quotes do not match" if given.strip() else "it is empty",
            """Write --labels 'a ring,"a red, big seven"'""",
        ) from None
    return [part.strip() for part in parts if part.strip()]


def refuse_both(caption: str | None, labels: str | None) -> None:
    """--text and --labels, before the model is loaded."""
    if caption is not None and labels is not None:
        raise HeedfulError(
            "--text and --labels exclude each other",
            "--text compares the picture with one text; --labels makes a classifier that chooses a caption",
            "Leave one of them out",
        )


def form(as_json: bool, as_csv: bool) -> str:
    """What goes to standard output."""
    if as_json and as_csv:
        raise HeedfulError("--json and --csv both want standard output", fix="Choose one")
    return "json" if as_json else "csv" if as_csv else "text"


def announce(rows: int, seconds: float, capped: bool) -> None:
    """Before a long run: about what it will cost, and how to make it shorter."""
    if seconds > PATIENCE:
        cap = "" if capped else "--budget N caps it, "
        print_stderr(
            f"up to {rows:,} model inputs, roughly {duration(seconds)}; {cap}Ctrl-C keeps what is finished"
        )


def _piped() -> bytes:
    """Standard input, as much of it as a text may have."""
    return sys.stdin.buffer.read(4 * LIMIT + 1)


def _picture(content: bytes) -> bytes:
    """All bytes of a picture on standard input, of which `content` was read; b"" if it is none."""
    if not content.startswith(PICTURE_STARTS) or not _is_binary(content):
        return b""
    from heedful.modalities.image_files import MAX_FILE_BYTES

    content += sys.stdin.buffer.read(max(0, MAX_FILE_BYTES + 1 - len(content)))
    if len(content) > MAX_FILE_BYTES:
        raise HeedfulError(
            f"the picture on standard input has more than {MAX_FILE_BYTES >> 20} MB", fix="Make it smaller"
        )
    return content


def _is_binary(content: bytes) -> bool:
    try:
        return "\0" in content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return True


def _decoded(content: bytes) -> str:
    """Standard input as text without its last line break; binary is refused."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if error.start > 4 * LIMIT - 4:  # only the cut at the limit is at fault
            raise HeedfulError(f"standard input has over {LIMIT:,} characters", fix="Shorten it") from None
        byte = content[error.start]
        raise HeedfulError(
            "standard input is not UTF-8 text",
            f"byte 0x{byte:02x} at position {error.start}",
            "Pipe plain text, or name the file of a picture",
        ) from None
    if "\0" in text:
        raise HeedfulError(
            "standard input is binary",
            "it contains NUL bytes",
            "Pipe plain text, or name the file of a picture",
        )
    return text.rstrip("\r\n")


def read_chat(file: str) -> list[dict[str, str]]:
    """Chat messages from a JSON file: a list of {"role": ..., "content": ...}."""
    shape = 'Write a list such as [{"role": "user", "content": "Hello"}]'
    try:
        content = sys.stdin.read(LIMIT) if file == "-" else read_file(file)
        messages = json.loads(content)
    except OSError as error:
        raise HeedfulError(f"cannot read {file}", error.strerror or str(error)) from None
    except (ValueError, RecursionError) as error:  # not UTF-8, not JSON
        raise HeedfulError(f"{file} is not JSON", str(error), shape) from None
    ok = isinstance(messages, list) and messages and all(_is_message(message) for message in messages)
    if not ok:
        raise HeedfulError(f"{file} contains no chat messages", "", shape)
    return [{"role": message["role"], "content": message["content"]} for message in messages]


def _is_message(message: Any) -> bool:
    return isinstance(message, dict) and all(isinstance(message.get(key), str) for key in ("role", "content"))


def write(path: Path, content: str) -> None:
    """Write a file the user named, making its folder."""
    from heedful.io.files import write_file

    try:
        write_file(path, content)
    except OSError as error:
        raise HeedfulError(
            f"cannot write {path}", error.strerror or str(error), "Name another file"
        ) from None


def check_save(folder: Path | None, kind: str) -> None:
    """Refuse, before a long run, a folder that holds another result."""
    if folder is not None:
        from heedful.io.run_folder import check_free

        check_free(folder, kind)


@contextmanager
def progress_bar(message: str, silent: bool = False) -> Iterator[Report]:
    """A bar with the time left of what is being done, on a stderr that is a terminal; elsewhere a line every
    ten seconds."""
    if silent:
        yield lambda step: None
        return
    if not sys.stderr.isatty():
        yield _every(PATIENCE)
        return
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

    parts = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[told]}"),
    )
    count = counted()
    with Progress(*parts, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(message, total=None, told="")
        yield lambda step: bar.update(
            task,
            completed=step.done,
            total=step.total or None,
            description=step.label,
            told=count(step.done, step.total),
        )


def _every(seconds: float) -> Report:
    """Plain lines, the first after so many seconds: a short run says nothing."""
    last, count = time.monotonic(), counted()

    def report(step: Step) -> None:
        nonlocal last
        rows = count(step.done, step.total)
        if time.monotonic() - last >= seconds:
            last = time.monotonic()
            print_stderr(f"{step.label}: {rows}" if rows else step.label)

    return report


def counted() -> Callable[[int, int], str]:
    """ "34/100, about 5 s left": of one count at a time, by its own pace since it began; nothing where
    nothing is counted."""
    began, first, before = time.monotonic(), 0, (0, 0)

    def told(done: int, total: int) -> str:
        nonlocal began, first, before
        if done < before[0] or total != before[1] != 0:  # another count: the last one's pace is not its own
            began, first = time.monotonic(), done
        before = (done, total)
        if total <= 1:
            return ""
        return f"{done:,}/{total:,}{time_left(done - first, total - first, time.monotonic() - began)}"

    return told


def time_left(done: int, total: int, seconds: float) -> str:
    """ ", about 40 s left" at the speed so far; nothing where that is not known."""
    if not 0 < done < total or seconds < 1:
        return ""
    return f", about {duration(seconds * (total - done) / done)} left"
