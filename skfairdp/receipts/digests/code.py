"""Code that a call of a user's function or class runs, for its digest."""

from __future__ import annotations

import dis
import site
import sys
import sysconfig
import types
from functools import cache, cached_property, lru_cache
from importlib import metadata
from itertools import takewhile
from operator import is_
from pathlib import Path
from typing import Any

import numpy as np
import scipy.special

# They run, read or change what cannot be known before.
UNKNOWABLE = ("__import__", "compile", "eval", "exec", "globals", "input", "locals", "open")
_LRU_CACHE = type(lru_cache(len))
# What classes of libraries held when they were looked through, and methods of the user among it.
_REPLACED: dict[type, tuple[tuple[Any, ...], dict[str, Any]]] = {}
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_LOADS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS")
# Written by the interpreter or for people; no call depends on them.
_NO_CODE = {
    "__abstractmethods__", "__annotate__", "__annotate_func__", "__annotations__",
    "__annotations_cache__", "__conditional_annotations__", "__dict__", "__doc__",
    "__firstlineno__", "__module__", "__orig_bases__", "__parameters__", "__slotnames__",
    "__static_attributes__", "__type_params__", "__weakref__", "_abc_impl",
}  # fmt: skip


def is_library(module: object) -> bool:
    """Whether a module, by its dotted name, belongs to an installed library and not to the user."""
    return isinstance(module, str) and _installed(module.partition(".")[0])


@cache
def _installed(top: str) -> bool:
    if top in ("skfairdp", *sys.builtin_module_names):
        return True
    module = sys.modules.get(top)
    file = getattr(module, "__file__", None) or next(iter(getattr(module, "__path__", ())), None)
    if top == "__main__" or file is None:
        return False
    named = map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib"))
    folders = (*named, *site.getsitepackages(), site.getusersitepackages())
    below = (Path(file).resolve().is_relative_to(Path(folder).resolve()) for folder in folders)
    return any(below) or _is_of_a_wheel(file)


def _is_of_a_wheel(file: str) -> bool:
    """Whether a wheel put a file, or a folder, where it is, e.g. by ``pip install --target``.

    Wheels leave a list of their files in the folder of their packages. In a checkout or an editable
    install, none lists the package. Lists in other folders are not read: there are hundreds.
    """
    path = Path(file).resolve()
    names = (path.name.partition(".")[0], path.parent.name)
    for wheel in metadata.distributions(path=[str(folder) for folder in path.parents[:2]]):
        listed = () if wheel.read_text("RECORD") is None else wheel.files or ()
        for entry in listed:
            if entry.parts[0].partition(".")[0] in names:
                put = Path(str(wheel.locate_file(entry))).resolve()
                if path in (put, *put.parents):
                    return True
    return False


def library_name(value: Any) -> str | None:
    """Importable name of a class or function of a library; None for others."""
    if isinstance(value, np.ufunc):
        own = value.__name__
        holders = (h for h in (np, scipy.special) if getattr(h, own, None) is value)
        return next((f"{holder.__name__}.{own}" for holder in holders), None)
    module, name = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not is_library(module) or not isinstance(name, str):
        return None
    found: Any = sys.modules.get(module)  # type: ignore[arg-type]
    for part in name.split("."):
        found = getattr(found, part, None)
    # A method bound to its class is made anew each time that it is looked up.
    same = found == value if isinstance(value, types.MethodType) else found is value
    return f"{module}.{name}" if same else None


def is_elementwise(function: object) -> bool:
    """Whether a function treats every number by itself: a library's ufunc of one argument."""
    if not isinstance(function, np.ufunc) or library_name(function) is None:
        return False
    return function.nin == 1 and function.signature is None


def code_parts(code: types.CodeType) -> list[Any]:
    """List the parts of a code object that decide its behaviour, without file and lines."""
    return [
        code.co_code,
        code.co_exceptiontable,
        [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags],
        [list(part) for part in (code.co_names, code.co_varnames, code.co_freevars)],
        *map(list, (code.co_cellvars, code.co_consts)),
    ]


@lru_cache(maxsize=1024)
def names_used(code: types.CodeType) -> dict[str, set[tuple[str, ...]]]:
    """Global names that code reads, each with the attributes that it takes of it at once.

    ``module.part.call(x)`` gives ``{"module": {("part", "call")}}``. Code inside it is looked into.
    Raises a LookupError where it imports, when called, a module that belongs to no library.
    """
    used: dict[str, set[tuple[str, ...]]] = {}
    instructions = list(dis.get_instructions(code))
    for place, instruction in enumerate(instructions):
        if instruction.opname == "IMPORT_NAME" and not is_library(instruction.argval):
            raise LookupError(instruction.argval or ".")
        if instruction.opname in _LOADS:
            after = takewhile(lambda i: i.opname in _ATTRIBUTES, instructions[place + 1 :])
            used.setdefault(instruction.argval, set()).add(tuple(i.argval for i in after))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            for name, chains in names_used(constant).items():
                used.setdefault(name, set()).update(chains)
    return used


def class_members(kind: type) -> dict[str, Any]:
    """Methods and attributes that a class statement of the user has written."""
    slots = (types.GetSetDescriptorType, types.MemberDescriptorType)
    return {
        name: member
        for name, member in vars(kind).items()
        if name not in _NO_CODE and not isinstance(member, slots)
    }


def replaced_methods(kind: type) -> dict[str, Any]:
    """Methods of a library's class that a program of the user has put in place, by name."""
    found: dict[str, Any] = {}
    for base in kind.__mro__:
        if not is_library(base.__module__):
            continue
        members = vars(base)
        now = (*members, *members.values())
        seen, replaced = _REPLACED.get(base, ((), {}))
        if len(seen) != len(now) or not all(map(is_, seen, now)):
            replaced = {n: held for n, m in members.items() if (held := _of_the_user(m))}
            _REPLACED[base] = now, replaced
        found |= {f"{base.__qualname__}.{name}": held for name, held in replaced.items()}
    return found


def _of_the_user(member: Any) -> types.FunctionType | None:
    """The function inside a member of a class, if a program of the user defined it."""
    held = next(iter(wrapped(member) or ()), member)
    home = held.__globals__.get("__name__") if isinstance(held, types.FunctionType) else None
    return held if home in sys.modules and not is_library(home) else None


def wrapped(value: Any) -> tuple[Any, ...] | None:
    """Functions inside a descriptor or cache; None for a value that is neither."""
    kind = type(value)
    if kind is property:
        return (value.fget, value.fset, value.fdel)
    if kind in (classmethod, staticmethod, _LRU_CACHE):
        return (value.__wrapped__,)
    return (value.func,) if kind is cached_property else None
