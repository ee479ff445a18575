"""Files that a command reads and writes."""

from __future__ import annotations

import glob
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skfairdp.certificate.json_document import strict_json
from skfairdp.command_line.errors import CommandError

if TYPE_CHECKING:
    from skfairdp.command_line.request import Request

YAML = (".yaml", ".yml")
# Beginning of a file's name until it is whole, and seconds without a change after which no run
# still writes it.
_UNFINISHED, _ABANDONED = ".{}.skfairdp-", 600.0


def read_document(path: Path) -> Any:
    """Read a JSON file, or a YAML one where PyYAML is installed."""
    text = read_text(path)
    if path.suffix.lower() not in YAML:
        try:
            return strict_json(text)
        except json.JSONDecodeError as error:
            raise CommandError(f"{path} is not JSON: {error.msg} in line {error.lineno}.") from None
        except ValueError:
            raise CommandError(
                f"{path} is not valid JSON: no key may occur twice in an object, and no NaN."
            ) from None
    try:
        import yaml
    except ImportError:
        raise CommandError(
            f"{path} is a YAML file, and reading those needs PyYAML, which is not installed: "
            "pip install PyYAML, or write the same as JSON."
        ) from None
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError) as error:
        # The message quotes the file, which may be a table by mistake.
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" (line {mark.line + 1})"
        raise CommandError(f"{path} is not YAML{where}.") from None


def document_text(document: Mapping[str, Any]) -> str:
    """Write a document as YAML, or where PyYAML is absent as JSON, which YAML readers take."""
    try:
        import yaml
    except ImportError:
        return json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    return str(yaml.safe_dump(dict(document), sort_keys=False, allow_unicode=True, width=100))


def read_text(path: Path) -> str:
    try:
        return read_bytes(path).decode("utf-8")
    except UnicodeError as error:
        raise CommandError(f"{path} cannot be read: {type(error).__name__}.") from None


def read_bytes(path: Path) -> bytes:
    check_exists(path)
    try:
        return path.read_bytes()
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}.") from None


def check_outputs(outputs: Mapping[str, Path | None], inputs: Mapping[str, Path | None]) -> None:
    """Refuse outputs by option before anything is spent on them; inputs must stay as they are."""
    taken = {path.resolve(): option for option, path in inputs.items() if path is not None}
    for option, path in outputs.items():
        if path is None:
            continue
        _check_can_write(path)
        other = taken.setdefault(path.resolve(), option)
        if other != option:
            raise CommandError(
                f"{option} and {other} both name {path}; give each output its own file."
            )


def _check_can_write(path: Path) -> None:
    folder = path.absolute().parent
    if not folder.is_dir():
        raise CommandError(f"{path} cannot be written: the folder {path.parent} does not exist.")
    if path.is_dir():
        raise CommandError(f"{path} is a folder; give the name of a file.")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise CommandError(f"{path} cannot be written: no permission.")
    if not _is_replaced(path):
        return
    try:  # permissions do not say that a disk is full or read-only
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}.") from None
    whole = path.resolve()
    for left in whole.parent.glob(f"{glob.escape(_UNFINISHED.format(whole.name))}*"):
        with suppress(OSError):  # another run may write or remove it, or own it
            if time.time() - left.stat().st_mtime > _ABANDONED:
                left.unlink()


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file as a whole or not at all; text becomes UTF-8."""
    written = content.encode("utf-8") if isinstance(content, str) else content
    try:
        if _is_replaced(path):
            _replace(path.resolve(), written)  # what a link names, and not the link
        else:
            path.write_bytes(written)  # a device, or a pipe
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}.") from None


def _is_replaced(path: Path) -> bool:
    return path.is_file() or not path.exists()


def _replace(path: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=_UNFINISHED.format(path.name))
    beside = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0o077)  # it can only be read by setting it
        os.umask(mask)
        beside.chmod(path.stat().st_mode if path.exists() else 0o666 & ~mask)
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def check_exists(path: Path) -> None:
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise CommandError(f"{path} {what}; give the name of a file.")


def say(request: Request, text: str) -> None:
    """Print the progress of a run."""
    if not request.quiet:
        print(text, file=sys.stderr, flush=True)
