"""What can be wrong with the arguments of a call, one class a mistake, and what a call warns of.
Must not know how arguments are checked."""

from __future__ import annotations

from autotune.errors import AutotuneError


class CallError(AutotuneError):
    """Any mistake in the arguments of a call."""


class TooManyArguments(CallError):
    sentence = "{kernel} takes {count} arguments, {given} were given"
    remedy = "expected {signature}"


class MissingArgument(CallError):
    sentence = "{kernel} needs the argument {name!r}"
    remedy = "expected {signature}"


class UnknownArgument(CallError):
    sentence = "{kernel} has no parameter {name!r}"
    remedy = "expected {signature}"


class RepeatedArgument(CallError):
    sentence = "{kernel} got the argument {name!r} twice, by position and by name"
    remedy = "give it once: {signature}"


class NotAnArray(CallError):
    sentence = "argument {name!r} of {kernel} is a {found}, which is no array"
    remedy = "expected {expected}: a NumPy array, or an object in CPU memory that exports DLPack"


class MaskedArray(CallError):
    sentence = "argument {name!r} of {kernel} is a masked array, and its mask would be ignored"
    remedy = "write {name}.filled(value), or {name}.data for the values without their mask"


class NotExported(CallError):
    sentence = "argument {name!r} of {kernel} cannot be used without a copy: {detail}"
    remedy = "move it to CPU memory, or detach it from what forbids exporting it"


class WrongDtype(CallError):
    sentence = "argument {name!r} of {kernel} has dtype {found}, expected {expected}"
    remedy = "write {name}.astype(np.{expected}); an output has to be allocated with that dtype"


class WrongRank(CallError):
    sentence = "argument {name!r} of {kernel} has {found} dimensions, shape {shape}; expected {expected}"
    remedy = "index or reshape it to {expected}"


class WrongExtent(CallError):
    sentence = "argument {name!r} of {kernel} has shape {shape}, expected {expected}"
    remedy = "{reason}"


class NotContiguous(CallError):
    sentence = "argument {name!r} of {kernel} is not C-contiguous: shape {shape}, strides {strides} bytes"
    remedy = "{advice}"


class Misaligned(CallError):
    sentence = "argument {name!r} of {kernel} starts at an address that is no multiple of its {size} bytes an element"
    remedy = "write {name}.copy()"


class ReadOnlyOutput(CallError):
    sentence = "argument {name!r} of {kernel} is written to, and the array is read-only"
    remedy = "pass an array that owns its memory, such as np.empty({shape}, np.{dtype}), or set its flags.writeable"


class OverlappingArguments(CallError):
    sentence = "argument {output!r} of {kernel} is written to and shares memory with argument {other!r}"
    remedy = "pass separate arrays: {output} = np.empty_like({output}), or a copy of {other}"


class WrongScalar(CallError):
    sentence = "argument {name!r} of {kernel} is {found}, expected {expected}"
    remedy = "convert it before the call"


class UnresolvedDimension(CallError):
    sentence = "{kernel} cannot tell the size of dimension {dim!r} from its arguments"
    remedy = "name {dim} alone as an extent of some tensor, as in at.f32[{dim!r}]"


class UntunedWarning(UserWarning):
    """A call runs the reference candidate because there is no usable policy."""


class StalePolicyWarning(UserWarning):
    """A stored policy no longer is what was measured."""
