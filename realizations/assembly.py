"""Counts events in x86-64 assembly text as LLVM prints it (AT&T syntax), to check what the counting builder claims.
Must not know how the text was made."""

from __future__ import annotations

import re
from collections import Counter

from autotune.realizations.events import Event, Events

_MOVES = re.compile(r"v?mov(aps|apd|ups|upd|dqa|dqu|dqa32|dqa64|dqu8|dqu16|dqu32|dqu64)$")
_SCALAR_MOVES = re.compile(r"v?movs[sd]$|v?mov[dq]$")
_FMA = re.compile(r"vfn?m(add|sub)(132|213|231)(p)[sd]$|vscalefp[sd]$|vfm(addsub|subadd)")
_SCALAR_FLOAT = re.compile(
    r"v?(add|sub|mul|min|max|round|rndscale|sqrt|div|cmp\w*|ucomi|comi|scalef)s[sd]$|vfn?m(add|sub)(132|213|231)s[sd]$"
    r"|v?cvt(t?s[sd]2s?\w+|si2s[sd]l?q?|usi2s[sd]l?)$"
)
_SHUFFLE = re.compile(
    r"v?(perm|pshuf|shuf|unpck|punpck|extract|insert|pextr|pinsr|broadcast|pbroadcast|movshdup|movsldup|movhlps|movlhps"
    r"|movddup|palignr|align|psrldq|pslldq|movhp|movlp|compress|expand|pack|pmovsx|pmovzx|pmov[wdq][bwd])"
)
_VECTOR_ALU = re.compile(
    r"v?(p?add|p?sub|p?min|p?max|p?cmp|p?and|p?or|p?xor|p?andn|ptern|psll|psrl|psra|prol|pror|cvt|round|rndscale|p?blend"
    r"|pabs|ptest|ptestm|ptestnm|range|reduce|getexp|getmant|fixupimm|ternlog|movm|movmsk|pmovmsk)"
)
_MULTIPLY = re.compile(r"v?(mulp[sd]|rsqrt14p[sd]|pmull\w|pmuludq|pmuldq)$")
_MASK = re.compile(r"k(and|or|xor|xnor|not|mov|shift|unpck|test|ortest|andn|add)|vpmovm2|vpmov[bwdq]2m")
_BRANCH = re.compile(r"j(?!mp)\w+$")
_MEMORY = re.compile(r"-?\w*\((%[^)]*)\)|(?<![\w.$])-?\w+\(,%[^)]*\)")
_STACK = re.compile(r"\(%rsp")
_FRAME = re.compile(r"\(%rsp|\(%rbp")  # where %rbp holds the frame
_REGISTER_BYTES = {"x": 16, "y": 32, "z": 64}


def count(text: str) -> Events:
    """Events of the one function in the text, each instruction once.

    Constant-pool and stack accesses, register moves, address arithmetic and function entry are left out, as the
    counting builder leaves them out; loops are not told from branches, so both are counted as branches.
    """
    found: Counter[Event] = Counter()
    stack = _FRAME if re.search(r"mov\w*\s+%rsp, %rbp", text) else _STACK
    for line in text.splitlines():
        parts = line.strip().split(None, 1)
        if not parts or parts[0].startswith((".", "#")) or parts[0].endswith(":"):
            continue
        _count_instruction(parts[0], parts[1].split("#")[0] if len(parts) > 1 else "", stack, found)
    return Events.of(found)


def _count_instruction(name: str, operands: str, stack: re.Pattern[str], found: Counter[Event]) -> None:
    memory = _MEMORY.search(operands)
    constant = memory is not None and ("%rip" in operands or ".LCPI" in operands)
    real_memory = memory is not None and not constant and stack.search(operands) is None
    store = real_memory and _is_store(name, operands)
    vector = "%xmm" in operands or "%ymm" in operands or "%zmm" in operands
    masked = "{%k" in operands
    if name.startswith(("vgather", "vpgather", "vscatter", "vpscatter")):
        _count_lanes(name, operands, found)
    elif _MASK.match(name):
        found[Event.MASK] += 1
    elif _is_move(name):
        _count_move(name, operands, real_memory, store, masked, found)
    elif "broadcast" in name and memory is not None:
        found[Event.BROADCAST_LOAD] += real_memory
        found[Event.SHUFFLE] += stack.search(operands) is not None  # a splat of a spilled scalar
        found[Event.ALU] += masked and "{z}" not in operands  # blends a constant in
    elif constant and name.startswith(("vpmovsx", "vpmovzx", "pmovsx", "pmovzx")):
        pass  # constants stored in fewer bits
    elif name.startswith("prefetch"):
        found[Event.PREFETCH] += 1
    elif not vector:
        if name.startswith(("call",)):
            found[Event.CALL] += 1
        elif _BRANCH.match(name):
            found[Event.BRANCH] += 1
        elif name.startswith(("idiv", "div")):
            found[Event.DIV_SCALAR] += 1
        elif name.startswith("mov") and real_memory:
            found[Event.SCALAR_STORE if store else Event.SCALAR_LOAD] += 1
    else:
        _count_vector(name, operands, real_memory, store, found)


def _is_move(name: str) -> bool:
    return bool(_MOVES.match(name) or _SCALAR_MOVES.match(name) or name.startswith(("vmaskmov", "vpmaskmov")))


def _count_move(name: str, operands: str, real_memory: bool, store: bool, masked: bool, found: Counter[Event]) -> None:
    if "maskmov" in name:
        found[Event.MASKED_STORE if store else Event.MASKED_LOAD] += 1
    elif real_memory and (name.endswith(("movss", "movsd")) or ("%xmm" not in operands and _SCALAR_MOVES.match(name))):
        found[Event.SCALAR_STORE if store else Event.SCALAR_LOAD] += 1
    elif real_memory and masked:
        found[Event.MASKED_STORE if store else Event.MASKED_LOAD] += 1
    elif real_memory:
        found[Event.VECTOR_STORE if store else Event.VECTOR_LOAD] += 1
    elif masked:
        found[Event.ALU] += 1  # a blend
    elif "%xmm" in operands and "(" not in operands and re.search(r"%[re]\w", operands):
        found[Event.SHUFFLE] += 1  # between general and vector registers


def _count_vector(name: str, operands: str, real_memory: bool, store: bool, found: Counter[Event]) -> None:
    scalar = bool(_SCALAR_FLOAT.match(name))
    if store:
        found[Event.SCALAR_STORE if name.startswith(("vextractps", "vpextr", "pextr")) else Event.VECTOR_STORE] += 1
    elif real_memory:
        if "{1to" in operands:
            found[Event.BROADCAST_LOAD] += 1
        elif scalar or name.startswith(("vinsertps", "insertps", "vpinsr", "pinsr", "vmovh", "movh")):
            found[Event.SCALAR_LOAD] += 1
        else:
            found[Event.VECTOR_LOAD] += 1
    if scalar:
        if "div" in name:
            found[Event.DIV_SCALAR] += 1
        elif "sqrt" in name:
            found[Event.SQRT_SCALAR] += 1
        else:
            found[Event.SCALAR_ALU] += 1
    elif _FMA.match(name):
        found[Event.FMA] += 1
    elif re.match(r"v?divp", name):
        found[Event.DIV_VECTOR] += 1
    elif re.match(r"v?sqrtp", name):
        found[Event.SQRT_VECTOR] += 1
    elif _MULTIPLY.match(name):
        found[Event.MUL] += 1
    elif _SHUFFLE.match(name):
        found[Event.SHUFFLE] += not (store and "extract" in name)
    elif _VECTOR_ALU.match(name) and not _zeroes(name, operands):
        found[Event.ALU] += 1


def _zeroes(name: str, operands: str) -> bool:
    """`xor r, r, r` makes a constant."""
    registers = re.findall(r"%[xyz]mm\d+", operands)
    return ("xor" in name and len(set(registers)) == 1) or ("pcmpeq" in name and len(set(registers)) == 1)


def _is_store(name: str, operands: str) -> bool:
    """AT&T syntax writes the destination last."""
    return name.startswith(("mov", "vmov", "vmaskmov", "vpmaskmov", "vextract", "vpextr", "pextr", "vpmov")) and (
        re.sub(r"\s*\{%k\d\}(\s*\{z\})?", "", operands).rstrip().endswith(")")
    )


def _count_lanes(name: str, operands: str, found: Counter[Event]) -> None:
    """Lanes of a gather or scatter: those of the wider of indices and elements."""
    widest = max(_REGISTER_BYTES[letter] for letter in re.findall(r"%([xyz])mm", operands))
    index_bytes = 8 if "q" in name.removeprefix("vp").removeprefix("v")[6:8] else 4
    element_bytes = 8 if name.endswith(("pd", "q")) else 4
    event = Event.GATHER_LANE if "gather" in name else Event.SCATTER_LANE
    found[event] += widest // max(index_bytes, element_bytes)
