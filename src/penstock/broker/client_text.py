"""Text that a client chose (a group, a member, a transactional id, a reason), as the broker's log shows it.

A client may send any characters, and 32,767 bytes of them. A plain short name is shown as it is. Anything else is shown
in quotes, with what is not printable escaped and what is too much cut off: a line of the log stays one line of bounded
length, and no terminal obeys it. Topics need none of this, since their names were checked when they were created.
"""

from __future__ import annotations

import re

MAX_SHOWN = 200
"""Characters of one text."""
_PLAIN = re.compile(r"[A-Za-z0-9._:/@+-]+")


def shown(text: str) -> str:
    if len(text) > MAX_SHOWN:
        return f"{text[:MAX_SHOWN]!r}... ({len(text)} characters)"
    return text if _PLAIN.fullmatch(text) else repr(text)
