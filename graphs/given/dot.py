"""Graphs in DOT, the language of Graphviz."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import pairwise, product
from typing import Any, NamedTuple

import networkx as nx

from kernelswarm.graphs.given.drawing import Drawing

WORD, QUOTED, MARKUP, SIGN, END = "word", "quoted", "markup", "sign", "end"
DEEPEST = 100
"""Subgraphs inside one another, at most."""

TOKEN = re.compile(
    r"""(?P<blank>[^\S\n]+|(?:\n[^\S\n]*|\A)(?:\#[^\n]*)|\n|//[^\n]*|/\*.*?\*/)
      | (?P<word>[^\W\d][\w\u0080-\U0010ffff]*|-?(?:\.\d+|\d+(?:\.\d*)?))
      | "(?P<quoted>(?:[^"\\]|\\.)*)"
      | (?P<sign>--|->|[][{}=;,:+])""",
    re.VERBOSE | re.DOTALL,
)
KINDS = {"graph": "--", "digraph": "->"}
DEFAULTS = ("graph", "node", "edge")


class Token(NamedTuple):
    """A word, a sign or the end, and the line that it stands in."""

    kind: str
    text: str
    line: int


def read_dot(text: str) -> nx.Graph[Any]:
    """Return the graph of a file in DOT. Edges of a digraph go one way; ``dir`` says otherwise of an edge.

    Nodes are called by their identifiers. Subgraphs give their nodes and edges, and ``a -- {b c}`` an edge to each.
    Attributes that are numbers become numbers, ``pos = "1.5,2!"`` a place. Ports, and what only draws, are left out.

    Parameters
    ----------
    text : str
        What the file holds.

    Raises
    ------
    ValueError
        It is not in the language, or holds several graphs: the line, and what stands there.

    Examples
    --------
    >>> graph = read_dot('graph { edge [weight=2]; "New York" -- {b; c} -- d }')
    >>> sorted(graph.edges(data="weight"))
    [('New York', 'b', 2), ('New York', 'c', 2), ('b', 'd', 2), ('c', 'd', 2)]
    """
    return _Reader(_tokens(text)).graph()


def _tokens(text: str) -> list[Token]:
    found, place, line = [], 0, 1
    while place < len(text):
        match = TOKEN.match(text, place)
        if match is not None:
            end = match.end()
            if match.lastgroup != "blank":
                found.append(Token(str(match.lastgroup), match[str(match.lastgroup)], line))
        elif text[place] == "<":  # as deep as its brackets
            end = _markup_end(text, place, line)
            found.append(Token(MARKUP, text[place:end], line))
        else:
            raise ValueError(f"line {line}: {text[place : place + 10].split()[0]!r} is none of its words")
        line += text.count("\n", place, end)
        place = end
    return [*found, Token(END, "the end of the file", line)]


def _markup_end(text: str, begin: int, line: int) -> int:
    depth = 0
    for place in range(begin, len(text)):
        depth += (text[place] == "<") - (text[place] == ">")
        if not depth:
            return place + 1
    raise ValueError(f"line {line}: the bracket < is not closed")


class _Reader:
    """The tokens of a file, and how far they are read."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self._tokens, self._place = tokens, 0
        self._sign = ""
        self._drawing = Drawing()

    def graph(self) -> nx.Graph[Any]:
        strict = self._takes_word("strict")
        kind = self._next()
        if kind.kind != WORD or kind.text.lower() not in KINDS:
            raise _unexpected(kind, '"graph" or "digraph"')
        self._sign = KINDS[kind.text.lower()]
        if self._now.text != "{":
            self._name()
        self._block({}, {}, 0)
        if self._now.kind != END:
            raise _unexpected(self._now, "the end, since a file holds one network,")
        return self._drawing.graph(merged=strict)

    @property
    def _now(self) -> Token:
        return self._tokens[self._place]

    def _next(self) -> Token:
        token = self._now
        self._place += token.kind != END
        return token

    def _takes(self, text: str) -> bool:
        found = self._now.kind == SIGN and self._now.text == text
        self._place += found
        return found

    def _takes_word(self, text: str) -> bool:
        found = self._now.kind == WORD and self._now.text.lower() == text
        self._place += found
        return found

    def _name(self) -> str:
        token = self._next()
        if token.kind not in (WORD, QUOTED, MARKUP):
            raise _unexpected(token, "a name")
        if token.kind != QUOTED:
            return token.text
        parts = [token.text]
        while self._takes("+"):
            token = self._next()
            if token.kind != QUOTED:
                raise _unexpected(token, "text in quotes")
            parts.append(token.text)
        return "".join(parts).replace("\\\n", "").replace('\\"', '"')

    def _block(self, node: dict[str, Any], edge: dict[str, Any], depth: int) -> list[str]:
        """Read statements in braces, with what nodes and edges have there at first; returns the nodes in them."""
        if not self._takes("{"):
            raise _unexpected(self._now, '"{"')
        if depth > DEEPEST:
            raise ValueError(f"line {self._now.line}: more than {DEEPEST} subgraphs inside one another")
        node, edge, nodes = dict(node), dict(edge), dict[str, None]()
        while not self._takes("}"):
            if self._takes(";"):
                continue
            following = self._tokens[min(self._place + 1, len(self._tokens) - 1)]
            if self._now.kind == WORD and self._now.text.lower() in DEFAULTS and following.text == "[":
                of = {"node": node, "edge": edge}.get(self._next().text.lower(), {})
                of.update(self._attributes())
            elif following.kind == SIGN and following.text == "=":
                self._name(), self._next(), self._name()
            else:
                nodes |= dict.fromkeys(self._statement(node, edge, depth))
        return list(nodes)

    def _statement(self, node: dict[str, Any], edge: dict[str, Any], depth: int) -> list[str]:
        """Read a node, a subgraph or a chain of edges between these; returns the nodes in it."""
        chain = [self._ends(node, edge, depth)]
        while self._now.text in ("--", "->") and self._now.kind == SIGN:
            sign = self._next()
            if sign.text != self._sign:
                kind = next(kind for kind, own in KINDS.items() if own == self._sign)
                raise ValueError(f'line {sign.line}: "{sign.text}" stands in a {kind}, whose edges are "{self._sign}"')
            chain.append(self._ends(node, edge, depth))
        attributes = self._attributes() if self._now.text == "[" else {}
        if len(chain) == 1:
            for name in chain[0]:
                self._drawing.nodes[name].update(attributes)
        attributes = {**edge, **attributes}
        ways = attributes.get("dir", "forward" if self._sign == "->" else "none")
        for left, right in pairwise(chain):
            for ends in product(left, right):
                source, target = reversed(ends) if ways == "back" else ends
                self._drawing.edge(source, target, attributes, one_way=ways in ("forward", "back"))
        return [name for ends in chain for name in ends]

    def _ends(self, node: dict[str, Any], edge: dict[str, Any], depth: int) -> list[str]:
        """Read a node, or a subgraph, whose nodes are all meant."""
        if self._takes_word("subgraph"):
            if self._now.text != "{":
                self._name()
            return self._block(node, edge, depth + 1)
        if self._now.kind == SIGN and self._now.text == "{":
            return self._block(node, edge, depth + 1)
        name = self._name()
        while self._takes(":"):  # where on the node's outline edges end
            self._name()
        if name not in self._drawing.nodes:
            self._drawing.node(name, node)
        return [name]

    def _attributes(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while self._takes("["):
            while not self._takes("]"):
                name = self._name()
                value = _value(name, self._name()) if self._takes("=") else True
                if value is not None:
                    found[name] = value
                if not self._takes(","):
                    self._takes(";")
        return found


def _value(name: str, text: str) -> Any:
    """Return the number that a text holds, or the text itself; for ``pos`` the coordinates, or None if malformed."""
    if name == "pos":
        numbers = [_number(part) for part in text.rstrip("!").split(",")]
        return tuple(map(float, numbers)) if not any(isinstance(each, str) for each in numbers) else None
    return _number(text)


def _number(text: str) -> Any:
    try:
        number = float(text)
    except ValueError:
        return text
    if not math.isfinite(number):
        return text
    return int(text) if re.fullmatch(r"[+-]?\d{1,18}", text) else number


def _unexpected(token: Token, wanted: str) -> ValueError:
    there = token.text if token.kind == END else repr(token.text)
    return ValueError(f"line {token.line}: {wanted} should stand where {there} is")
