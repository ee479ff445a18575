"""Print the public interface, one line a name: python .ci/interface.py [FORMER]

With the listing of a former release (docs/interfaces/0.1.0.txt), print only the differences, and
exit with 1 where a name was removed or a signature changed.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path
from typing import Any

import skfairdp


def rooms() -> list[str]:
    """List the packages that publish names, each by the stub that lists them."""
    folder = Path(skfairdp.__file__).parent
    stubs = sorted(folder.rglob("__init__.pyi"))
    return [".".join(("skfairdp", *stub.parent.relative_to(folder).parts)) for stub in stubs]


def signature(thing: Any) -> str:
    """Write a signature without types, and without addresses of objects in memory."""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):
        return ""
    plain = [one.replace(annotation=one.empty) for one in found.parameters.values()]
    without = found.replace(parameters=plain, return_annotation=found.empty)
    return re.sub(r" at 0x[0-9a-f]+", "", str(without))


def lines() -> Iterator[str]:
    """Write every public name, and every public method of a class of this package."""
    for room in rooms():
        module = importlib.import_module(room)
        for name in sorted(module.__all__):
            thing = getattr(module, name)
            yield f"{room}.{name}{signature(thing)}"
            if not inspect.isclass(thing):
                continue
            for method, member in inspect.getmembers(thing, callable):
                if not method.startswith("_") and str(getattr(member, "__module__", "")).startswith(
                    "skfairdp"
                ):
                    yield f"{room}.{name}.{method}{signature(member)}"


if __name__ == "__main__":
    now = [*dict.fromkeys(lines())]
    if len(sys.argv) == 1:
        print("\n".join(now))
        sys.exit()
    former = Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()
    different = [*unified_diff(former, now, sys.argv[1], "now", n=0, lineterm="")]
    print("\n".join(different) or "The public interface is the same.")
    sys.exit(any(line.startswith("-") and not line.startswith("---") for line in different))
