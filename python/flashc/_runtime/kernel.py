"""Kernel objects: compiled ahead of the call, with everything that can be known of them."""
from __future__ import annotations

import ctypes
import json
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Union

from .._arrays.array import CPU, Array, ArraySpec, contiguous_strides
from .._arrays.protocol import ArrayLike
from .._arrays.source import source_of
from .._trace.captured import Need
from .._trace.trace import Code, device_name
from . import library
from .launch import Launcher, _Frame, _positions, canonical, gives_lse, no_elements, wait_for
from .library import ArgumentError, UnsupportedTypeError, encoded, parse_flag
from .public import public
from .sinks import read_sinks
from .specialization import CPU_TARGET, GPU_TARGET, Specialization, Window, check_inputs, check_layout, make_code, \
    specialize
from .vectors import with_vector

__all__ = ["Kernel", "Cost", "compile"]


class Cost:
    """Totals over one call, counted from the loops with the kernel's tiles: tiles that a mask rules out cost nothing.

    Attributes:
        matmul_flops: of the two products; an addition or a multiplication each counts 1.
        other_flops: of everything else.
        bytes_read, bytes_written: between the device's memory and the chip.
    """
    __slots__ = ("matmul_flops", "other_flops", "bytes_read", "bytes_written")

    def __init__(self, matmul_flops: int, other_flops: int, bytes_read: int, bytes_written: int) -> None:
        self.matmul_flops, self.other_flops = matmul_flops, other_flops
        self.bytes_read, self.bytes_written = bytes_read, bytes_written

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cost) and all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "Cost(" + ", ".join(f"{name}={getattr(self, name)}" for name in self.__slots__) + ")"


class MaskMaps(NamedTuple):
    """Maps that a kernel keeps, their bytes, and launches that found theirs or had to run the mask."""
    maps: int
    bytes: int
    hits: int
    misses: int


class Kernel:
    """A compiled attention. `flashc.compile` makes it; calling it launches it."""

    def __init__(self, specialization: Specialization, layout: str, code: Code, arrays: Sequence[Array],
                 enable_gqa: bool, can_launch: bool, sinks: Any = None) -> None:
        self._specialization, self._layout, self._code = specialization, layout, code
        self._arrays, self._enable_gqa, self._can_launch = tuple(arrays), enable_gqa, can_launch
        self._sinks = sinks
        self._compiled = specialization.compile(code=code)
        self._launchers: Dict[int, Launcher] = {}

    def __repr__(self) -> str:
        it = self._specialization
        return (f"<flashc.Kernel {it.dtype} D={it.head_dim} Dv={it.value_dim} group={it.group_size} for {it.target}"
                + (f", schedule {self.schedule}>" if self.schedule else ">"))

    @property
    def target(self) -> str:
        """The GPU architecture, such as "sm_90a", or "cpu"."""
        return self._specialization.target

    @property
    def ptx(self) -> str:
        """The kernel in PTX; empty for the CPU."""
        return self._compiled.ptx()

    @property
    def manifest(self) -> Dict[str, Any]:
        """How to launch the kernel (docs/manifest.md); a new dictionary at each access."""
        return json.loads(self._compiled.manifest() or "{}")

    @property
    def schedule(self) -> str:
        """The schedule, in the form that `schedule=` takes; empty for the CPU."""
        return self._compiled.schedule()

    @property
    def decisions(self) -> str:
        """What was chosen for every entry of the kernel and why, for people (docs/schedules.md); empty for the CPU."""
        return self._compiled.decisions()

    @property
    def cost(self) -> Cost:
        """The cost of a call with the shapes that were given to `flashc.compile`."""
        frame = make_frame(self._specialization, self._code, self._arrays, self._layout == "bshd")
        cost = self._compiled.cost(ctypes.cast(frame.address, ctypes.POINTER(library.Argument)), frame.count)
        return Cost(*(int(getattr(cost, name)) for name in Cost.__slots__))

    @property
    def mask_maps(self) -> MaskMaps:
        """What is kept of the mask's tiles on GPUs that the kernel has been called on (docs/masks.md)."""
        every = [launcher.loaded.mask_maps() for launcher in self._launchers.values()]
        return MaskMaps(*(sum(getattr(one, name) for one in every) for name in MaskMaps._fields))

    def ir(self, level: str) -> str:
        """The program at a level: "flash", "loops", and for a GPU "tile", "nvvm" or "llvm".

        Raises:
            flashc.Error: there is no such level, or not for this target.
        """
        return self._compiled.ir(level)

    @public
    def __call__(self, q: Any, k: Any, v: Any, *, return_lse: bool = False, out: Any = None) -> Any:
        """The attention of other arrays than those the kernel was compiled with; they may differ in batch, heads,
        lengths and strides unless it was compiled with `static_shapes=True`. The mask and the score read the arrays
        that they referred to at compilation, and the sinks are those of then.

        Args:
            q, k, v, return_lse, out: as for `flashc.attention`, but the kernel stays the same: one that has the
                log-sum-exp writes it in every call, one without cannot return it.
        """
        if (gives_lse(out) or return_lse) and not self._specialization.has_lse:
            raise ArgumentError("expected a kernel with the log-sum-exp, got one that was compiled with "
                                "return_lse=False")
        if not self._can_launch:
            raise ArgumentError("expected a kernel whose mask, score and sinks are arrays with elements, got one that "
                                "was compiled with ArraySpec for them")
        source = source_of(q)
        q_array = source.describe(q)
        stream = None if q_array.device == CPU else source.current_stream(q_array.device, q_array)
        k_array, v_array = source_of(k).describe(k, stream), source_of(v).describe(v, stream)
        is_bshd, it = self._layout == "bshd", self._specialization
        extents = check_inputs(q_array, k_array, v_array, is_bshd, self._enable_gqa)
        if (q_array.device == CPU) != (it.target == CPU_TARGET):
            raise ArgumentError(f"expected arrays for a kernel for {it.target}, got them on "
                                f"{device_name(q_array.device)}")
        for array in self._code.arrays:
            if array.device != q_array.device:
                raise ArgumentError(f"expected q on {device_name(array.device)}, where the arrays of the mask, the "
                                    f"score and the sinks are, got it on {device_name(q_array.device)}")
        for what, have, want in (("element type", q_array.dtype, it.dtype), ("D", extents.head_dim, it.head_dim),
                                 ("Dv", extents.value_dim, it.value_dim)):
            if have != want:
                raise ArgumentError(f"expected arrays for a kernel of {what} {want}, got {have}")
        if 0 in q_array.shape or 0 in k_array.shape:
            return no_elements(source, q, q_array, k_array, v_array, is_bshd, self._enable_gqa, out, return_lse, stream,
                               self._sinks)
        if not (q_array.address and k_array.address and v_array.address):
            raise ArgumentError("expected q, k and v with elements in memory, got an address of 0")
        if extents.query_heads != extents.key_heads * it.group_size:
            raise ArgumentError(f"expected arrays for a kernel of {it.group_size} query heads per key head, got "
                                f"{extents.query_heads} over {extents.key_heads}")
        for array in (k_array, v_array, *self._code.arrays):
            wait_for(array, stream)
        launcher = self._launchers.get(q_array.device)
        if launcher is None:
            launcher = self._launchers.setdefault(q_array.device,
                                                  Launcher(self._compiled, it, q_array.device, is_bshd, self._code))
        return launcher(source, q, q_array, k_array, v_array, self._enable_gqa, self._code, stream or 0, out,
                        return_lse)


@public
def compile(q: Union[ArrayLike, ArraySpec], k: Union[ArrayLike, ArraySpec], v: Union[ArrayLike, ArraySpec], *,
            causal: bool = False, window: Window = None, scale: Optional[float] = None,
            mask: Union[ArrayLike, ArraySpec, Callable[..., Any], None] = None,
            score: Optional[Callable[..., Any]] = None, sinks: Union[ArrayLike, ArraySpec, None] = None,
            enable_gqa: bool = False, return_lse: bool = True,
            layout: str = "bhsd", target: Optional[str] = None, schedule: Optional[str] = None,
            static_shapes: bool = False) -> Kernel:
    """Compiles an attention without running it; no GPU is needed.

    Args:
        q, k, v: arrays, or `flashc.ArraySpec(shape, dtype)`; of arrays with elements, the shapes and the element type
            matter. The kernel takes any batch, heads (in the same ratio), lengths and strides afterwards.
        causal, window, scale, mask, score, sinks, enable_gqa, layout, schedule, static_shapes: as for
            `flashc.attention`. A mask array and the sinks may be an ArraySpec; then the kernel can be looked at, not
            called.
        return_lse: the kernel has the log-sum-exp, and a call says whether it wants it. False: it has none, as those
            of `flashc.attention` without `return_lse`.
        target: "sm_90a", or "cpu" for this machine's processor. None: what suits the arrays; "sm_90a" for ArraySpec.

    Returns:
        A `flashc.Kernel`.

    Raises:
        flashc.CompileError: the compiler refuses, in its own words.
        flashc.ArgumentError, flashc.UnsupportedTypeError, flashc.TraceError: as for `flashc.attention`.
    """
    request = make_request(q, k, v, causal, window, scale, mask, score, enable_gqa, return_lse, layout, target,
                           schedule, static_shapes, sinks)
    can_launch = all(array.address or not isinstance(array.owner, ArraySpec) for array in request.code.arrays)
    return Kernel(request.specialization, layout, request.code, request.arrays, enable_gqa, can_launch, sinks)


class Request(NamedTuple):
    """What is to be compiled, and for what it was asked."""
    specialization: Specialization
    code: Code
    #: q, k, v.
    arrays: Sequence[Array]


def make_request(q: Any, k: Any, v: Any, causal: bool, window: Window, scale: Optional[float], mask: Any, score: Any,
                 enable_gqa: bool, return_lse: bool, layout: str, target: Optional[str], schedule: Optional[str],
                 static_shapes: bool, sinks: Any = None) -> Request:
    """The arguments of `flashc.compile`, checked."""
    is_bshd = check_layout(layout)
    if target is not None:
        encoded("target", target)
    causal, enable_gqa = parse_flag("causal", causal), parse_flag("enable_gqa", enable_gqa)
    return_lse, static_shapes = parse_flag("return_lse", return_lse), parse_flag("static_shapes", static_shapes)
    arrays = [source_of(x).describe(x) for x in (q, k, v)]
    specs = [isinstance(x, ArraySpec) for x in (q, k, v)]
    devices = {array.device for array, is_spec in zip(arrays, specs) if not is_spec}
    if len(devices) > 1:
        raise ArgumentError(f"expected q, k and v on one device, got {', '.join(map(device_name, sorted(devices)))}")
    device = devices.pop() if devices else None
    if target is None:
        target = CPU_TARGET if device == CPU else GPU_TARGET
    if device is None:
        device = CPU if target == CPU_TARGET else None
    # ArraySpec has no device, and a kernel for another device may be compiled from any arrays: it is not asked here.
    extents = check_inputs(*(array._replace(device=CPU) for array in arrays), is_bshd, enable_gqa)
    if arrays[0].dtype == "f64":
        raise UnsupportedTypeError("expected q, k and v of bf16, f16 or f32 for a kernel to look at, got f64, which "
                                   "runs as it is written")
    if extents.key_heads == 0:
        raise ArgumentError("expected at least one head, got none")
    code = make_code(mask, score, extents, None, None)
    if mask is not None and not callable(mask) and score is None:
        # The kernel may be called with other extents, which the mask's must reach.
        code = code._replace(needs=tuple(Need(dim, 1, array, dim) for array in code.arrays
                                         for dim, extent in enumerate(array.shape) if extent != 1))
    code.check((extents.batch, extents.query_heads, extents.queries, extents.keys))
    if static_shapes and 0 in extents:
        raise ArgumentError(f"expected extents of at least 1 for static_shapes=True, got {extents}")
    specialization = specialize(arrays[0], extents, causal, window, scale, code, target, schedule, static_shapes,
                                return_lse, has_sinks=sinks is not None)
    if sinks is not None:
        code = with_vector(code, read_sinks(sinks, arrays[0], extents.query_heads, None, is_launched=False))
    return Request(specialization, code, arrays)


def make_frame(specialization: Specialization, code: Code, arrays: Sequence[Array], is_bshd: bool) -> _Frame:
    """The arguments of a call as C reads them, for questions about it: without addresses."""
    q, k, v = arrays
    frame = _Frame(specialization.ranks)
    numbers: List[int] = []
    for x in (q, k, v):
        numbers += canonical(x.shape, is_bshd)
        numbers += canonical(contiguous_strides(x.shape), is_bshd)
    for one in code.bound:
        numbers += one.extents
        numbers += one.strides
    batch, heads, length, _ = _positions(q, k, is_bshd)
    outputs = (batch, heads, length, v.shape[3]), (batch, heads, length)
    for shape in outputs if specialization.has_lse else outputs[:1]:
        numbers += shape
        numbers += contiguous_strides(shape)
    frame.set_numbers(numbers)
    return frame
