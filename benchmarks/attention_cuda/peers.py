"""What PyTorch has beside our kernels: name -> (forward, backward, results [out, grad_q, grad_k, grad_v]) over the same
tensors."""
from inspect import signature

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel


def peers_dense(q, k, v, grad_out, causal, gqa, deterministic):
    """name -> (forward, backward, results) over [B, S, H, D]; if asked for, also a backward made deterministic, without
    results."""
    qt, kt, vt, gt = (t.transpose(1, 2) for t in (q, k, v, grad_out))
    qt, kt, vt = (t.detach().requires_grad_() for t in (qt, kt, vt))
    result = {}
    for name, backend in (("cuDNN", SDPBackend.CUDNN_ATTENTION), ("FlashAttention-2", SDPBackend.FLASH_ATTENTION)):
        def forward(backend=backend):
            with torch.no_grad(), sdpa_kernel(backend):
                return F.scaled_dot_product_attention(qt, kt, vt, is_causal=causal, enable_gqa=gqa)
        try:
            with sdpa_kernel(backend):
                out = F.scaled_dot_product_attention(qt, kt, vt, is_causal=causal, enable_gqa=gqa)
            backward = lambda out=out: torch.autograd.grad(out, (qt, kt, vt), gt, retain_graph=True)
            grads = backward()
            result[name] = (forward, backward, [t.detach().transpose(1, 2) for t in (out, *grads)])
        except Exception as e:
            print(f"  {name}: refuses ({str(e).splitlines()[0][:90]})")
            continue
        if deterministic and name == "FlashAttention-2":  # cuDNN's stays as it is, and its dQ differs from run to run
            result[f"{name}, deterministic"] = (None, lambda backward=backward: made_deterministic(backward), None)
    return result | flash_attention_4("flash_attn_func", q, k, v, grad_out, causal=causal)


def flash_attention_4(function, q, k, v, grad_out, **options):
    """Where its package is installed; its backward also as it runs deterministically."""
    try:
        import flash_attn.cute as package
    except ImportError:
        return {}
    result = {}
    q, k, v = (t.detach().requires_grad_() for t in (q, k, v))
    for name, deterministic in (("FlashAttention-4", False), ("FlashAttention-4, deterministic", True)):
        try:
            def call(deterministic=deterministic):
                return getattr(package, function)(q, k, v, deterministic=deterministic, **options)[0]
            def forward(call=call):
                with torch.no_grad():
                    return call()
            out = call()
            backward = lambda out=out: torch.autograd.grad(out, (q, k, v), grad_out, retain_graph=True)
            result[name] = (None if deterministic else forward, backward, [t.detach() for t in (out, *backward())])
        except Exception as e:
            print(f"  {name}: refuses ({str(e).splitlines()[0][:120]})")
    return result


def made_deterministic(call):
    torch.utils.deterministic.fill_uninitialized_memory = False  # a debugging aid that would cost time
    torch.use_deterministic_algorithms(True)
    try:
        return call()
    finally:
        torch.use_deterministic_algorithms(False)


def sequence_mask(offsets, total, block=128):
    """FlexAttention's block mask of a packed batch, where a row attends the keys of its own sequence, and the rows rounded up to
    blocks."""
    from torch.nn.attention.flex_attention import BlockMask
    rows = (total + block - 1) // block * block
    lengths = offsets.diff()
    owner = torch.repeat_interleave(torch.arange(len(lengths), device="cuda"), lengths)
    owner = F.pad(owner, (0, rows - total), value=len(lengths))
    first, last = owner[::block], owner[block - 1::block]
    touches = (first[:, None] <= last[None, :]) & (first[None, :] <= last[:, None])
    whole = (first == last)[:, None] & (first == last)[None, :] & (first[:, None] == first[None, :])
    listed = lambda m: (m.sum(-1, dtype=torch.int32)[None, None],
                        torch.argsort(m.int(), dim=-1, descending=True, stable=True).int()[None, None])
    return BlockMask.from_kv_blocks(*listed(touches & ~whole), *listed(whole), BLOCK_SIZE=block,
                                    mask_mod=lambda b, h, i, j: owner[i] == owner[j]), rows


def flex_peer(q, k, v, grad_out, offsets):
    from torch.nn.attention.flex_attention import flex_attention
    total, gqa = q.shape[0], q.shape[1] != k.shape[1]
    mask, rows = sequence_mask(offsets, total)
    qf, kf, vf, gf = (F.pad(t, (0, 0, 0, 0, 0, rows - total)).transpose(0, 1)[None].contiguous() for t in (q, k, v, grad_out))
    qf, kf, vf = (t.requires_grad_() for t in (qf, kf, vf))
    compiled = torch.compile(flex_attention, dynamic=False)
    def forward():
        with torch.no_grad():
            return compiled(qf, kf, vf, block_mask=mask, enable_gqa=gqa)
    out = compiled(qf, kf, vf, block_mask=mask, enable_gqa=gqa)
    backward = lambda: torch.autograd.grad(out, (qf, kf, vf), gf, retain_graph=True)
    return forward, backward, [t.detach()[0].transpose(0, 1)[:total] for t in (out, *backward())]


def peers_ragged(q, k, v, grad_out, offsets, lengths, flex):
    result = {}
    cu, longest = offsets.int(), int(lengths.max())
    qg, kg, vg = (t.detach().requires_grad_() for t in (q, k, v))
    try:
        from torch.nn.attention.varlen import varlen_attn
        grouped = {"enable_gqa": True} if q.shape[1] != k.shape[1] and "enable_gqa" in signature(varlen_attn).parameters else {}
        def forward():
            with torch.no_grad():
                return varlen_attn(qg, kg, vg, cu, cu, longest, longest, **grouped)
        out = varlen_attn(qg, kg, vg, cu, cu, longest, longest, **grouped)
        backward = lambda: torch.autograd.grad(out, (qg, kg, vg), grad_out, retain_graph=True)
        result["varlen_attn"] = (forward, backward, [t.detach() for t in (out, *backward())])
    except Exception as e:
        print(f"  varlen_attn: refuses ({str(e).splitlines()[0][:120]})")
    result |= flash_attention_4("flash_attn_varlen_func", q, k, v, grad_out, cu_seqlens_q=cu, cu_seqlens_k=cu,
                                max_seqlen_q=longest, max_seqlen_k=longest)
    if not flex:
        return result
    try:
        result["FlexAttention"] = flex_peer(q, k, v, grad_out, offsets)
    except Exception as e:
        print(f"  FlexAttention: refuses ({str(e).splitlines()[0][:120]})")
    return result
