"""Sections under the headings that an authority asks for; the templates are in `templates/`."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

from skfairdp.certificate.render.elements import Section

if TYPE_CHECKING:
    from skfairdp.certificate.facts import Fact

PLAIN = "plain"
NOT_STATED = "not stated"


@cache
def _documents() -> dict[str, dict[str, Any]]:
    files = resources.files(__package__).joinpath("templates").iterdir()
    texts = {file.name.removesuffix(".toml"): file.read_text(encoding="utf-8") for file in files}
    return {name: tomllib.loads(texts[name]) for name in sorted(texts)}


def template_names() -> tuple[str, ...]:
    """Names of the templates, the one without headings of others first."""
    return (PLAIN, *_documents())


def arranged(
    sections: Sequence[Section],
    template: str,
    facts: Sequence[Fact],
    answers: Sequence[tuple[str, str]],
) -> tuple[Section, ...]:
    """Put all sections but the first under the headings of a template.

    `answers`: texts by the names of the templates' questions, in addition to the facts.
    """
    if template not in template_names():
        raise ValueError(f"template={template!r} is not known; use one of {template_names()}.")
    if template == PLAIN:
        return tuple(sections)
    summary, *others = sections
    document = _documents()[template]
    left, known = {part.title: part for part in others}, dict(answers)
    for fact in facts:  # such as alternatives of a search, and of the ledger
        known[fact.name] = "; ".join(filter(None, (known.get(fact.name), str(fact))))
    found = [
        summary,
        Section("How this is arranged", (" ".join(document["note"].split()),), extra=True),
    ]
    for heading in document["heading"]:
        lines = [
            f"{line['ask']}: {known.get(line.get('fact', ''), NOT_STATED).removesuffix('.')}."
            for line in heading.get("line", ())
        ]
        lines += [f"{title}: {NOT_STATED}." for title in heading["holds"] if title not in left]
        parts = tuple(left.pop(title) for title in heading["holds"] if title in left)
        content = (tuple(lines),) if lines else ()
        found.append(Section(heading["name"], content, parts))
    return (*found, *left.values())
