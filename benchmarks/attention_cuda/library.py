"""The kernels through their C interface: ctypes mirrors of deckle/kernels/args/attention_cuda.h over torch tensors."""
import ctypes as c
import torch


class Tensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("batch_stride", c.c_int64), ("row_stride", c.c_int64), ("head_stride", c.c_int64)]


class Mask(c.Structure):
    _fields_ = [("left", c.c_int32), ("right", c.c_int32), ("bottom_right", c.c_bool)]


class Sizes(c.Structure):
    _fields_ = [("batch", c.c_int32), ("heads", c.c_int32), ("kv_heads", c.c_int32), ("head_dim", c.c_int32),
                ("value_dim", c.c_int32),
                ("query_rows", c.c_int64), ("key_rows", c.c_int64), ("query_offsets", c.c_void_p), ("key_offsets", c.c_void_p),
                ("key_lengths", c.c_void_p), ("most_queries", c.c_int32), ("most_keys", c.c_int32)]


class Dropout(c.Structure):
    _fields_ = [("threshold", c.c_int), ("seed", c.c_uint64), ("offset", c.c_uint64), ("standing", c.c_void_p),
                ("first_sequence", c.c_int64), ("first_head", c.c_int64), ("first_row", c.c_int64), ("first_column", c.c_int64)]


class Plane(c.Structure):
    _fields_ = [("data", c.c_void_p), ("sequence_stride", c.c_int64), ("head_stride", c.c_int64), ("row_stride", c.c_int64),
                ("column_stride", c.c_int64), ("rows", c.c_int32), ("columns", c.c_int32), ("offsets", c.c_void_p),
                ("elements", c.c_int64)]


class Ranges(c.Structure):
    _fields_ = [("bounds", c.c_void_p), ("count", c.c_int)]


class Problem(c.Structure):
    _fields_ = [("device", c.c_int32), ("element", c.c_int32), ("sizes", Sizes), ("mask", Mask), ("scale", c.c_float),
                ("q", Tensor), ("k", Tensor), ("v", Tensor), ("out", Tensor), ("sinks", c.c_void_p), ("soft_cap", c.c_float),
                ("slopes", c.c_void_p), ("dropout", Dropout), ("dropout_key", c.c_void_p), ("bias", Plane),
                ("bias_before_cap", c.c_bool), ("table", c.c_void_p), ("table_reach", c.c_int64), ("ranges", Ranges),
                ("forbidden", Plane), ("lse", c.c_void_p), ("workspace", c.c_void_p), ("workspace_bytes", c.c_int64),
                ("plan", c.c_void_p)]


class Backward(c.Structure):
    _fields_ = [("problem", Problem), ("grad_out", Tensor), ("grad_lse", c.c_void_p), ("grad_q", Tensor), ("grad_k", Tensor),
                ("grad_v", Tensor), ("grad_sinks", c.c_void_p), ("grad_slopes", c.c_void_p), ("grad_table", c.c_void_p),
                ("grad_bias", Plane)]


UNBOUNDED = 1 << 30


def tensor(t):
    """[B, L, H, D] or [rows, H, D]."""
    batch = t.stride(0) if t.dim() == 4 else 0
    return Tensor(t.data_ptr(), batch, t.stride(-3), t.stride(-2))


def plane(t):
    """[B or 1, H or 1, M or 1, N or 1]."""
    strides = [0 if size == 1 else stride for size, stride in zip(t.shape, t.stride())]
    return Plane(t.data_ptr(), *strides, t.shape[2], t.shape[3], None, 0)


def planes(t, offsets, of_heads):
    """[heads or 1, rows, keys] of each sequence, one after the other; `offsets`: where each begins."""
    return Plane(t.data_ptr(), 1, int(of_heads), 1, 1, 1, 1, offsets.data_ptr(), t.numel())


class Library:
    def __init__(self, path):
        lib = c.CDLL(path)
        for name in ("forward", "backward"):
            getattr(lib, f"deckle_attention_{name}").restype = c.c_char_p
            getattr(lib, f"deckle_portable_{name}").restype = c.c_char_p
            getattr(lib, f"deckle_attention_{name}_workspace").restype = c.c_int64
        lib.deckle_attention_decode.restype = c.c_char_p
        lib.deckle_attention_decode_workspace.restype = c.c_int64
        lib.deckle_attention_plan_bytes.restype = c.c_int64
        lib.deckle_attention_make_plan.restype = c.c_char_p
        lib.deckle_attention_struct_bytes.restype = c.c_int64
        lib.deckle_variant_name.restype = c.c_char_p
        lib.deckle_variant_forward.restype = c.c_char_p
        assert lib.deckle_attention_struct_bytes(0) == c.sizeof(Problem), "library.py has drifted from attention_cuda.h"
        assert lib.deckle_attention_struct_bytes(1) == c.sizeof(Backward), "library.py has drifted from attention_cuda.h"
        self.lib = lib
        self.variants = [(i, lib.deckle_variant_name(i).decode(),
                          (lib.deckle_variant_head_dim(i), lib.deckle_variant_value_dim(i)))
                         for i in range(lib.deckle_variant_count())]


class Attention:
    """One problem: forward() and backward() enqueue on torch's current stream and write out, lse, grad_q, grad_k, grad_v. With
    `planned`, the offsets of a ragged one are decoded here, once."""

    def __init__(self, library, q, k, v, causal=False, offsets=None, grad_out=None, window=None, planned=False):
        self.lib = library.lib
        ragged = offsets is not None
        rows = lambda t: t.shape[0] if ragged else t.shape[1]
        self.keep = (q, k, v, offsets, grad_out)
        self.out = torch.empty(*q.shape[:-1], v.shape[-1], dtype=q.dtype, device=q.device)
        heads = q.shape[-2]
        self.lse = torch.empty(q.shape[:-1], dtype=torch.float32, device=q.device)
        p = Problem()
        p.device = q.device.index
        p.element = 0 if q.dtype == torch.bfloat16 else 1
        p.sizes = Sizes(offsets.numel() - 1 if ragged else q.shape[0], heads, k.shape[-2], q.shape[-1], v.shape[-1], rows(q),
                        rows(k),
                        offsets.data_ptr() if ragged else None, offsets.data_ptr() if ragged else None)
        left, right = window if window else (UNBOUNDED, 0 if causal else UNBOUNDED)
        p.mask = Mask(left, right, True)
        p.scale = q.shape[-1] ** -0.5
        p.q, p.k, p.v, p.out = tensor(q), tensor(k), tensor(v), tensor(self.out)
        p.lse = self.lse.data_ptr()
        if planned:
            bytes_needed = self.lib.deckle_attention_plan_bytes(c.byref(p))
            self.plan = torch.empty(max(256, bytes_needed), dtype=torch.uint8, device=q.device)
            stream = c.c_void_p(torch.cuda.current_stream().cuda_stream)
            self._check(self.lib.deckle_attention_make_plan(c.byref(p), c.c_void_p(self.plan.data_ptr()), stream))
            p.plan = self.plan.data_ptr()
        self.workspace = torch.empty(max(256, self.lib.deckle_attention_forward_workspace(c.byref(p)), 64 << 20),
                                     dtype=torch.uint8,
                                     device=q.device)
        p.workspace, p.workspace_bytes = self.workspace.data_ptr(), self.workspace.numel()
        self.problem = p
        if grad_out is not None:
            self.grads = [torch.empty_like(t) for t in (q, k, v)]
            self.arguments = Backward(p, tensor(grad_out), None, *[tensor(g) for g in self.grads])
            bytes_needed = max(16 * self.lse.numel(), self.lib.deckle_attention_backward_workspace(c.byref(self.arguments)))
            self.backward_workspace = torch.empty(bytes_needed, dtype=torch.uint8, device=q.device)
            workspace = self.arguments.problem
            workspace.workspace, workspace.workspace_bytes = self.backward_workspace.data_ptr(), bytes_needed

    @staticmethod
    def _check(message):
        if message:
            raise RuntimeError(message.decode())

    def forward(self):
        self._check(self.lib.deckle_attention_forward(c.byref(self.problem), c.c_void_p(torch.cuda.current_stream().cuda_stream)))

    def variant(self, index):
        stream = c.c_void_p(torch.cuda.current_stream().cuda_stream)
        self._check(self.lib.deckle_variant_forward(index, c.byref(self.problem), stream))

    def backward(self):
        self._check(self.lib.deckle_attention_backward(c.byref(self.arguments),
                                                       c.c_void_p(torch.cuda.current_stream().cuda_stream)))

    def portable_forward(self):
        self._check(self.lib.deckle_portable_forward(c.byref(self.problem), c.c_void_p(torch.cuda.current_stream().cuda_stream)))

    def portable_backward(self):
        self._check(self.lib.deckle_portable_backward(c.byref(self.arguments),
                                                      c.c_void_p(torch.cuda.current_stream().cuda_stream)))

    def decode(self):
        self._check(self.lib.deckle_attention_decode(c.byref(self.problem), c.c_void_p(torch.cuda.current_stream().cuda_stream)))
