"""The page of messages: every text that the package raises or warns with, read off its source.

``{all-messages}`` in a page lists them by room, ``{usual-messages}`` those of which ``cures.toml``
in this folder says more. Values that are filled in are shown as their names in ‹ ›.
"""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "skfairdp"
# What a room is about, in the order of the page.
ROOMS = {
    "": "Rows, groups, parameters",
    "preprocessing": "Preprocessing",
    "inprocessing": "Training",
    "additive": "Additive models",
    "engine": "Nets and gradients",
    "aggregation": "Teachers and public rows",
    "representation": "Representations",
    "postprocessing": "After training",
    "privacy": "Privacy, accounting, ledger",
    "fairness": "Notions, groups, bounds",
    "certificate": "Certificates",
    "monitoring": "Monitoring",
    "model_selection": "Searches and frontiers",
    "metrics": "Metrics",
    "audit": "Audits",
    "datasets": "Data sets",
    "comparators": "Comparators",
    "command_line": "Command line",
}
_WARN = {"warn", "warn_user"}
# What only somebody who writes a mechanism meets.
_OF_DEVELOPERS = {"NotImplementedError", "AssertionError", "AttributeError"}


@dataclass(frozen=True)
class Message:
    """One text, the kind that carries it, and the room it comes from."""

    room: str
    kind: str
    text: str
    module: str


@functools.cache
def collect(source: Path = SOURCE) -> list[Message]:
    """Read all messages of a package, in the order of rooms and modules, each once."""
    found: dict[tuple[str, str], Message] = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source).parts
        room = parts[0] if len(parts) > 1 else ""
        module = ".".join((source.name, *parts)).removesuffix(".py").removesuffix(".__init__")
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for kind, text in _carried(tree):
            found.setdefault((kind, text), Message(room, kind, text, module))
    return list(found.values())


def _carried(tree: ast.Module) -> Iterator[tuple[str, str]]:
    texts = _texts_of_names(tree)
    for node in ast.walk(tree):
        call = node.exc if isinstance(node, ast.Raise) else node
        if not isinstance(call, ast.Call) or not call.args:
            continue
        name = _name(call.func)
        if name in _WARN:
            kind = _name(call.args[1]) if len(call.args) > 1 else "UserWarning"
        elif name.endswith(("Error", "Warning")):
            kind = name  # raised here, or made here and raised by the caller
        else:
            continue
        for argument in call.args if kind == "CommandError" else call.args[:1]:
            text = " ".join(_text(argument, texts).split())
            said = [word for word in text.split() if "‹" not in word and "›" not in word]
            if kind not in _OF_DEVELOPERS and len(said) > 2:
                yield kind, text


def _texts_of_names(tree: ast.Module) -> dict[str, ast.expr]:
    """Texts of the names that are given one text, once."""
    given: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            given.setdefault(node.targets[0].id, []).append(node.value)
    known = (ast.Constant, ast.JoinedStr, ast.BinOp)
    return {k: v[0] for k, v in given.items() if len(v) == 1 and isinstance(v[0], known)}


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "Error")


def _text(node: ast.expr, texts: dict[str, ast.expr]) -> str:
    """Text of an expression; what is filled in by its name."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr():
            return "".join(_text(part, texts) for part in node.values)
        case ast.FormattedValue(value=value):
            return _text(value, texts)
        case ast.BinOp(op=ast.Add(), left=left, right=right):
            return _text(left, texts) + _text(right, texts)
        case ast.Call(func=ast.Attribute(attr="format", value=value)):
            return _text(value, texts)
        case ast.IfExp(body=body):
            return _text(body, texts)
        case ast.Name(id=name) if name in texts:
            text = _text(texts[name], {})
            return text if len(text.split()) > 2 else f"‹{_short(node)}›"
    return f"‹{_short(node)}›"


def _short(node: ast.expr) -> str:
    """Name of the value in a gap, in the words of a user where possible."""
    match node:
        case ast.Name(id=name):
            return name.strip("_").replace("_", " ")
        case ast.Attribute(attr=name):
            return name.strip("_").replace("_", " ")
        case ast.Subscript(value=value):
            return _short(value)
        case ast.Call(func=ast.Attribute(attr="join"), args=[inner, *_]):
            return _short(inner)
        case ast.Call(args=[inner, *_]):
            return _short(inner)
        case ast.Call(func=func):
            return _short(func)
        case ast.GeneratorExp(generators=[first, *_]) | ast.ListComp(generators=[first, *_]):
            return _short(first.iter)
        case ast.BinOp(left=left):
            return _short(left)
    return "…"


@dataclass(frozen=True)
class Cure:
    """What a message that many meet means, and what to do."""

    begins: str
    cause: str
    cure: str


def cures() -> list[tuple[Cure, list[Message]]]:
    """Read what was written by hand, with the messages that it belongs to."""
    with (HERE / "cures.toml").open("rb") as file:
        written = [Cure(**entry) for entry in tomllib.load(file)["cures"]]
    return [(c, [m for m in collect() if _begins(m.text, c.begins)]) for c in written]


def _begins(text: str, words: str) -> bool:
    """Whether a message begins so, whatever the names of what is filled in."""
    return re.match(re.sub("‹[^›]*›", "‹[^›]*›", re.escape(words)), text) is not None


class UsualMessages(SphinxDirective):
    """List the messages that have a cure of their own."""

    def run(self) -> list[nodes.Node]:
        return [_listed([(message, cure) for cure, found in cures() for message in found])]


class AllMessages(SphinxDirective):
    """List all messages by room, folded."""

    def run(self) -> list[nodes.Node]:
        by_room: dict[str, list[Message]] = {room: [] for room in ROOMS}
        for message in collect():
            by_room.setdefault(message.room, []).append(message)
        found: list[nodes.Node] = []
        for room, messages in by_room.items():
            title = f"{ROOMS.get(room, room)} ({len(messages)})"
            fold = f"<details class='messages-room'><summary>{title}</summary>"
            found.append(nodes.raw("", fold, format="html"))
            found.append(_listed([(message, None) for message in messages]))
            found.append(nodes.raw("", "</details>", format="html"))
        return found


def _listed(entries: list[tuple[Message, Cure | None]]) -> nodes.bullet_list:
    listed = nodes.bullet_list(classes=["messages"])
    for message, cure in entries:
        text = nodes.paragraph("", "", nodes.strong("", message.kind), nodes.Text(" "))
        for part in re.split(r"(‹[^›]*›)", message.text):
            kind = nodes.emphasis if part.startswith("‹") else nodes.inline
            text += kind("", part, support_smartquotes=False)
        item = nodes.list_item("", text)
        if cure is not None:
            for name, words in (("Cause", cure.cause), ("Cure", cure.cure)):
                said = nodes.inline("", words, support_smartquotes=False)
                item += nodes.paragraph("", "", nodes.strong("", f"{name}: "), said)
        listed += item
    return listed


def setup(app: Sphinx) -> dict[str, bool]:
    """Offer the two lists."""
    app.add_directive("usual-messages", UsualMessages)
    app.add_directive("all-messages", AllMessages)
    return {"parallel_read_safe": True}
