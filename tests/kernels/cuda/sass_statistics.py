#!/usr/bin/env python3
"""Counts the instructions of each kernel in cubins, without a disassembler: sass_statistics.py [--gate]
FILE.cubin|FILE.o|FILE.a...

An instruction is 16 bytes; its low nine bits tell the operation. The codes below were found by calibration against cuobjdump.
With --gate, exits 1 if a kernel uses local memory (a spill), if one that multiplies matrices does so without HGMMA or also by
HMMA, if there is no such kernel, or if there are more than 160 kernels in all, the portable ones included.
"""
import collections
import re
import struct
import sys

NAMES = {0x1F0: "HGMMA", 0x03C: "HMMA", 0x108: "MUFU", 0x023: "FFMA", 0x021: "FADD", 0x020: "FMUL", 0x009: "FMNMX", 0x03E: "F2FP",
         0x0CA: "R2UR", 0x082: "UMOV", 0x183: "LDL", 0x187: "STL", 0x1B4: "UTMALDG", 0x1B5: "UTMASTG", 0x11D: "BAR",
         0x012: "LOP3", 0x016: "PRMT", 0x025: "IMAD.WIDE",
         0x024: "IMAD", 0x010: "IADD3", 0x00C: "ISETP", 0x008: "FSEL", 0x007: "SEL", 0x189: "SHFL", 0x147: "BRA"}

MOST_KERNELS = 160
MULTIPLIES = re.compile("attention_forward_kernel|(?<!round_)(key|query|all|short|split|second)_gradients|"
                       "tangent_attention_kernel")


def faults(name, counts):
    """Why the gate refuses a kernel."""
    if counts["LDL"] or counts["STL"]:
        yield f"{counts['LDL']} loads and {counts['STL']} stores of local memory"
    if MULTIPLIES.search(name) and not counts["HGMMA"]:
        yield "no HGMMA"
    if MULTIPLIES.search(name) and counts["HMMA"]:
        yield f"{counts['HMMA']} HMMA"


def counts_of(text):
    """How often each instruction stands in a kernel."""
    return collections.Counter(NAMES.get(code[0] & 0x1FF, hex(code[0] & 0x1FF)) for code in struct.iter_unpack("<QQ", text))


def sections(data):
    offset, size, count, names = struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQ", data, offset + i * size) for i in range(count)]
    table = headers[names][4]
    for name, kind, _, _, start, length in headers:
        end = data.index(b"\0", table + name)
        yield data[table + name:end].decode(), kind, data[start:start + length]


def cubins(data):
    """The file itself, or every cubin embedded uncompressed in an object file."""
    if struct.unpack_from("<H", data, 18)[0] == 190:
        yield data
        return
    position = data.find(b"\x7fELF", 4)
    while position >= 0:
        if struct.unpack_from("<H", data, position + 18)[0] == 190:
            yield data[position:]
        position = data.find(b"\x7fELF", position + 4)


def main():
    gate = "--gate" in sys.argv
    refused, multiplying, kernels = [], 0, set()  # one that is built for several architectures counts once
    for path in sys.argv[1:]:
        if path.startswith("-"):
            continue
        for cubin in cubins(open(path, "rb").read()):
            for name, kind, text in sections(cubin):
                if not name.startswith(".text.") or kind != 1:
                    continue
                kernels.add(name)
                counts = counts_of(text)
                multiplying += bool(MULTIPLIES.search(name))
                refused += [f"{name[6:]}: {fault}" for fault in faults(name, counts)]
                known = {k: v for k, v in counts.most_common() if not k.startswith("0x")}
                unknown = {k: v for k, v in counts.most_common() if k.startswith("0x")}
                print(f"{name[6:86]}: {len(text) // 16} instructions {known}" + (f" {unknown}" if "-v" in sys.argv else ""))
    if gate:
        if len(kernels) > MOST_KERNELS:
            refused.append(f"{len(kernels)} kernels, at most {MOST_KERNELS}")
        print(f"{len(kernels)} kernels, {multiplying} for Hopper that multiply matrices; refused:", *(refused or ["none"]),
              sep="\n  ")
        sys.exit(bool(refused) or not multiplying)


if __name__ == "__main__":
    main()
