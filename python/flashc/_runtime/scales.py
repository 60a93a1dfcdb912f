"""The scales of caches of 8 bits: the factors by which their elements are multiplied."""
from __future__ import annotations

from typing import Tuple

from .._arrays.array import spoken
from .calls import Inputs
from .library import ArgumentError

EIGHT_BITS = "f8e4m3", "i8"


def read_scales(inputs: Inputs, like: str, dtype: str, pages: int, key_heads: int) -> Tuple[bool, bool]:
    """Checks k_scale and v_scale for caches of `dtype`, and reshapes them in `inputs` to [1 or pages, 1 or Hk]. Returns
    whether pages, and key heads, have separate scales."""
    names = "k_scale", "v_scale"
    given = [name in inputs for name in names]
    if dtype not in EIGHT_BITS:
        if any(given):
            raise ArgumentError(f"expected no k_scale and v_scale for caches of {spoken(dtype)}")
        return False, False
    if not all(given):
        raise ArgumentError(f"expected k_scale and v_scale for caches of {spoken(dtype)}: what their elements are "
                            "multiplied with")
    forms = []
    for name in names:
        x = inputs[name]
        shape = (1,) * (2 - len(x.shape)) + tuple(x.shape)
        if len(shape) != 2 or shape[0] not in (1, pages) or shape[1] not in (1, key_heads):
            raise ArgumentError(f"expected {name} of shape [], [Hk], [pages, 1] or [pages, Hk], Hk = {key_heads} and "
                                f"pages = {pages}, got {tuple(x.shape)}")
        inputs.arrays[name] = x._replace(shape=shape, strides=(1,) * (2 - len(x.shape)) + tuple(x.strides))
        inputs.check(name, like, "f32", "", shape)
        forms.append((shape[0] != 1, shape[1] != 1))
    if forms[0] != forms[1]:
        raise ArgumentError(f"expected k_scale and v_scale of one shape, got {tuple(inputs['k_scale'].shape)} and "
                            f"{tuple(inputs['v_scale'].shape)}")
    return forms[0]
