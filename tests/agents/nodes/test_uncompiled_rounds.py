"""With numba switched off the compiled round's own text runs as Python, for whoever looks into it: the same digests."""

from __future__ import annotations

import json
from collections.abc import Callable

from tests.helpers.uncompiled_networks import digests


def test_the_text_of_the_rounds_gives_the_same_digests_as_python(uncompiled: Callable[[str], str]) -> None:
    computed = json.loads(uncompiled("from tests.helpers.uncompiled_networks import write_digests; write_digests()"))
    assert computed == digests()
