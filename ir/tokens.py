"""The words of one line of program text, read from left to right.
Must not know what the lines of a program say."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from autotune.ir.errors import UnreadableText
from autotune.ir.program import Number

_TOKEN = re.compile(
    r'\s*(%\d+|"(?:[^"\\]|\\.)*"|\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|[A-Za-z_]\w*|//|->|[-+*%().,:=@\[\]])', re.ASCII
)

T = TypeVar("T")


@dataclass(slots=True)
class TextLine:
    """The tokens of one line and how many have been read."""

    number: int
    text: str
    depth: int
    tokens: list[str]
    at: int = 0
    head: str = ""

    @staticmethod
    def of(number: int, text: str) -> TextLine:
        indent, position = len(text) - len(text.lstrip(" ")), 0
        line = TextLine(number=number, text=text, depth=indent // 2, tokens=[])
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                raise UnreadableText(line=number, text=text[position:].strip(), expected="a word, number or sign")
            line.tokens.append(match[1])
            position = match.end()
        return line

    @property
    def next(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.next
        self.at += 1
        return token

    def accept(self, token: str) -> bool:
        if self.next != token:
            return False
        self.at += 1
        return True

    def expect(self, token: str) -> None:
        if not self.accept(token):
            raise self.unreadable(repr(token))

    def unreadable(self, expected: str) -> UnreadableText:
        return UnreadableText(line=self.number, text=" ".join(self.tokens[self.at :]), expected=expected)

    def one_of(self, choices: Mapping[str, T], what: str) -> T:
        if self.next not in choices:
            raise self.unreadable(what)
        return choices[self.take()]

    def integer(self) -> int:
        negative = self.accept("-")
        if not self.next.isdigit():
            raise self.unreadable("an integer")
        return -int(self.take()) if negative else int(self.take())

    def value_number(self) -> int:
        if not re.fullmatch(r"%\d+", self.next):
            raise self.unreadable("a value like %0")
        return int(self.take()[1:])

    def number_literal(self) -> Number:
        negative = self.accept("-")
        token = self.take()
        if token in ("true", "false"):
            return token == "true"
        if token.isdigit():
            return -int(token) if negative else int(token)
        if token in ("inf", "nan") or token[:1].isdigit():
            return -float(token) if negative else float(token)
        self.at -= 1
        raise self.unreadable("a number")

    def source_line(self) -> int:
        return self.integer() if self.accept("@") else 0

    def end(self) -> None:
        if self.next:
            raise self.unreadable("the end of the line")

    def declared(self) -> tuple[str, str]:
        """A symbol and the name it stands for."""
        symbol = self.take()
        if not symbol.isidentifier():
            self.at -= 1
            raise self.unreadable("a name")
        return symbol, json.loads(self.take()) if self.next.startswith('"') else symbol

    def listed(self, item: Callable[[], T], opening: str, closing: str) -> tuple[T, ...]:
        self.expect(opening)
        items: list[T] = []
        while not self.accept(closing):
            if items:
                self.expect(",")
            items.append(item())
        return tuple(items)
