"""What can be wrong with a question put to a search.
Must not know how an error is shown to a user."""

from __future__ import annotations

from autotune.errors import AutotuneError


class NoWorkload(AutotuneError):
    """A search without a shape of a kernel that has no workloads."""

    sentence = "kernel {kernel!r} has no workloads and no shape was given"
    remedy = "write search({kernel}, dict({example})), or @at.kernel(workloads=[dict({example})]) above the kernel"


class SeveralWorkloads(AutotuneError):
    """A search without a shape of a kernel that has several workloads."""

    sentence = "kernel {kernel!r} has {count} workloads and no shape was given"
    remedy = "search one at a time, e.g. search({kernel}, dict({example}))"


class UnknownMechanism(AutotuneError):
    """A mechanism that is forbidden or allowed by a name that none has."""

    sentence = "no mechanism is called {name!r}"
    remedy = "expected one of {known}"


class ForbiddenAndAllowed(AutotuneError):
    """A mechanism that is forbidden and allowed at once."""

    sentence = "mechanism {name!r} is both forbidden and allowed"
    remedy = "leave out one of the two"


class CannotRunHere(AutotuneError):
    """A question that only running code can answer, for a target whose code this machine cannot run."""

    sentence = "this machine cannot run code for {target}, so nothing can be measured"
    remedy = "ask on a machine that has it, or write --target simd for what this machine has"


class BadCondition(AutotuneError):
    """A condition on choices that cannot be read."""

    sentence = "the condition {text!r} cannot be read: {problem}"
    remedy = "write for example lanes=8, tile.M>=16, p3.storage!=direct, uses=own-lanes or mapping=column"


class UnknownChoice(AutotuneError):
    """A condition on a choice that no candidate of the space has."""

    sentence = "no candidate has a choice called {name!r}"
    remedy = "expected one of {known}"


class UnknownStrategy(AutotuneError):
    """A strategy by a name that none has."""

    sentence = "no search strategy is called {name!r}"
    remedy = "expected one of {known}"


class TooManyCandidates(AutotuneError):
    """A search of every candidate of a space that is larger than what it may be."""

    sentence = "{count} candidates are legal, and an exhaustive search takes at most {limit}"
    remedy = "narrow the space by --only or --forbid, raise --max-candidates, or leave out --strategy exhaustive"
