"""What can be wrong with a program, its text or the arguments it is interpreted with.
Must not know how an error is shown to a user."""

from __future__ import annotations

from dataclasses import dataclass


class ProgramError(Exception):
    """Any mistake found at the level of the tile program."""


@dataclass(eq=False, slots=True, kw_only=True)
class InvalidProgram(ProgramError):
    """A program breaks a rule of its form; `check` names the rule, `excerpt` shows the marked line of its text."""

    check: str
    message: str
    excerpt: str

    def __str__(self) -> str:
        return f"{self.check}: {self.message}\n{self.excerpt}"


@dataclass(eq=False, slots=True, kw_only=True)
class UnreadableText(ProgramError):
    """Program text that the parser cannot read."""

    line: int
    text: str
    expected: str

    def __str__(self) -> str:
        return f"line {self.line}: expected {self.expected}, found {self.text!r}"


@dataclass(eq=False, slots=True, kw_only=True)
class UnboundProgram(ProgramError):
    """A program whose dimensions are still symbols was to be interpreted."""

    program: str
    dims: tuple[str, ...]

    def __str__(self) -> str:
        return f"program {self.program!r} still has the symbolic dimensions {', '.join(self.dims)}; bind(...) it first"


@dataclass(eq=False, slots=True, kw_only=True)
class MissingArgument(ProgramError):
    """A parameter without an argument and without a default."""

    name: str

    def __str__(self) -> str:
        return f"no argument for parameter {self.name!r}, which has no default"


@dataclass(eq=False, slots=True, kw_only=True)
class ArgumentMismatch(ProgramError):
    """An argument whose shape or element type differs from its parameter's."""

    name: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"argument {self.name!r}: expected {self.expected}, found {self.found}"


@dataclass(eq=False, slots=True, kw_only=True)
class StoreOutside(ProgramError):
    """A store that its mask does not keep inside the tensor."""

    name: str
    index: tuple[int, ...]
    shape: tuple[int, ...]
    line: int

    def __str__(self) -> str:
        return f"store to {self.name!r} at {list(self.index)} leaves its shape {list(self.shape)} (line {self.line})"


@dataclass(eq=False, slots=True, kw_only=True)
class UndefinedIndex(ProgramError):
    """An index expression that divides by zero."""

    expression: str

    def __str__(self) -> str:
        return f"the index expression {self.expression} divides by zero"


@dataclass(eq=False, slots=True, kw_only=True)
class InvalidBufferProgram(ProgramError):
    """A buffer program breaks a rule of its form; `check` names the rule, `excerpt` the marked line of its text."""

    check: str
    message: str
    excerpt: str

    def __str__(self) -> str:
        return f"{self.check}: {self.message}\n{self.excerpt}"


@dataclass(eq=False, slots=True, kw_only=True)
class NoFitFound(ProgramError):
    """A planner found no placement within the workspace; another one, or a longer search, might."""

    planner: str
    needed_bytes: int
    capacity_bytes: int

    def __str__(self) -> str:
        return (
            f"no fit found: the best placement of planner {self.planner!r} takes {self.needed_bytes} bytes, the "
            f"workspace has {self.capacity_bytes}; its search is bounded, so this does not prove that none exists"
        )


@dataclass(eq=False, slots=True, kw_only=True)
class EndlessLoop(ProgramError):
    """A while loop that made more trips than any loop is expected to."""

    trips: int
    line: int

    def __str__(self) -> str:
        return (
            f"the while loop in line {self.line} still runs after {self.trips} trips; write a condition that becomes "
            "false in every program"
        )


@dataclass(eq=False, slots=True, kw_only=True)
class WrongMergeRule(ProgramError):
    """A merge rule whose result differs from that of the undivided loop; `parts` says how the loop was split."""

    program: str
    line: int
    parts: str
    expected: str
    difference: str

    def __str__(self) -> str:
        return (
            f"the merge rule of the loop in line {self.line} of {self.program!r} is wrong: {self.parts}, merged, give "
            f"another result than the whole loop: {self.difference}; {self.expected}"
        )
