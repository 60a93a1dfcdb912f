"""Tensors that the tests on a GPU share."""
import torch


def qkv(b, hq, hk, nq, nk, d, dv=None, dtype=torch.bfloat16):
    """Returns q, k and v with elements of normal(0, 1)."""
    return [torch.randn(shape, device="cuda").to(dtype)
            for shape in ((b, hq, nq, d), (b, hk, nk, d), (b, hk, nk, dv or d))]


def positions(*shape):
    """Returns b, h, i and j as tensors that broadcast to the shape."""
    return [torch.arange(extent, device="cuda").view([-1 if dim == place else 1 for dim in range(4)])
            for place, extent in enumerate(shape)]
