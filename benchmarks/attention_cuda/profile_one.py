"""One launch of one case, for a profiler:
profile_one.py LIBRARY D S HEADS [causal | window | ragged [long] | bias | dropout] [portable] [backward]."""
import os
import sys

import torch

from library import Attention, Dropout, Library

torch.manual_seed(0)  # the lengths of bench.py
library = Library(os.path.abspath(sys.argv[1]))
d, s, heads = map(int, sys.argv[2:5])
if "ragged" in sys.argv:  # S is the number of sequences, of mean length 58, or 1,212
    middle, longest = (800, 8192) if "long" in sys.argv else (40, 512)
    lengths = torch.exp(0.8 * torch.randn(s)).mul(middle).clamp(4, longest).long()
    offsets = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)]).cuda()
    q, k, v, g = (torch.randn(int(lengths.sum()), heads, d, dtype=torch.bfloat16, device="cuda") for _ in range(4))
    attention = Attention(library, q, k, v, offsets=offsets, grad_out=g)
else:
    q, k, v, g = (torch.randn(max(1, 16384 // s), s, heads, d, dtype=torch.bfloat16, device="cuda") for _ in range(4))
    if "bias" in sys.argv or "dropout" in sys.argv:  # as features.py has them
        from features import featured
        bias = torch.randn(len(q), heads, s, s, dtype=torch.bfloat16, device="cuda") if "bias" in sys.argv else None
        fields = {"dropout": Dropout(26, 1, 2)} if bias is None else {"bias": bias}
        attention = featured(library, (q, k, v, g), grad_bias=None if bias is None else torch.empty_like(bias), **fields)
    else:
        window = (1023, 0) if "window" in sys.argv else None
        attention = Attention(library, q, k, v, causal="causal" in sys.argv, grad_out=g, window=window)
path = "portable_" if "portable" in sys.argv else ""
for direction in ("forward", "backward") if "backward" in sys.argv else ("forward",):
    getattr(attention, path + direction)()
torch.cuda.synchronize()
