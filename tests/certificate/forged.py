"""The text of a changed certificate, as a forger writes it."""

from __future__ import annotations

import json
from typing import Any

from skfairdp.certificate.json_document import content_digest


def forged_text(document: dict[str, Any]) -> str:
    """Write a document, with the digest of its contents anew where it has one."""
    anew = {"content_digest": content_digest(document)} if "content_digest" in document else {}
    return json.dumps(document | anew)
