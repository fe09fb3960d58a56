"""Mistakes in how the command is called, one class each: what is wrong and what to write instead.
Must not know how an error is shown."""

from __future__ import annotations

from autotune.errors import AutotuneError


class BadShape(AutotuneError):
    sentence = "--shape {text}: {problem}; expected NAME=NUMBER entries with commas between"
    remedy = "write --shape M=129,N=512"


class BadOutput(AutotuneError):
    sentence = "--out {path}: expected a file name that ends in .svg"
    remedy = "write --out graph.svg"


class NoShape(AutotuneError):
    sentence = "kernel {kernel!r} has no workloads and no --shape was given"
    remedy = "write --shape {shape}, or @at.kernel(workloads=[dict({arguments})]) above the kernel"


class SeveralShapes(AutotuneError):
    sentence = "kernel {kernel!r} has {count} workloads and this verb shows one: {shapes}"
    remedy = "write --shape {first}"


class NoSuchKernel(AutotuneError):
    sentence = "{path} has no kernel {name!r}; it has {kernels}"
    remedy = "write --kernel {first}"


class SeveralKernels(AutotuneError):
    sentence = "{path} has {count} kernels and this verb shows one: {kernels}"
    remedy = "write --kernel {first}"


class NothingStored(AutotuneError):
    sentence = "no policy for {kernel}:{shape} on {target}: {why}"
    remedy = "write autotune search {path} --shape {shape} --target {target}"


class NothingMeasured(NothingStored):
    sentence = "no policy for {kernel}:{shape} on {target}: this machine cannot run its code, so nothing was measured"
    remedy = "name `reference`, or an id that autotune search {path} --shape {shape} --target {target} lists"


class NoSuchCandidate(AutotuneError):
    sentence = "candidate {text!r}: {problem}"
    remedy = "write more digits of an id that `autotune explain FILE` lists, `reference`, or nothing for the winner"


class NoDrawing(AutotuneError):
    sentence = "--out draws the graph with matplotlib, which is not installed"
    remedy = "write pip install 'autotune-kernels[plot]', or leave --out away for the text form"
