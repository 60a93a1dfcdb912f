"""flashc.compile, and the kernels that it returns."""
from __future__ import annotations

import ctypes
import json
from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple, Union

from .._arrays.array import CPU, ArraySpec, contiguous_strides, device_name
from .._arrays.protocol import ArrayLike
from .._trace.captured import Need
from .._trace.code import Code
from . import library
from .calls import Case, Inputs, attention_case, case_of
from .launch import Frame, Launcher, attention_results, lies_exchanged, shape_of, split_out, wait_for
from .library import ArgumentError, UnsupportedTypeError, encoded
from .options import Operands, Options, Window
from .public import public
from .specialization import CPU_TARGET, GPU_TARGET, Extents, Specialization, check_inputs, make_code, specialize, \
    sum_dtype
from .vectors import check_vectors


class Cost(NamedTuple):
    """Totals over one call, counted from the loops with the kernel's tiles; tiles that a mask skips count nothing.

    Attributes:
        matmul_flops: of the two products; an addition and a multiplication count 1 each.
        other_flops: of all other operations.
        bytes_read, bytes_written: between the device's memory and the chip.
    """
    matmul_flops: int
    other_flops: int
    bytes_read: int
    bytes_written: int


class MaskMaps(NamedTuple):
    """The maps of tiles that a kernel keeps, their bytes, and the launches that found a map (hits) or ran the mask
    (misses)."""
    maps: int
    bytes: int
    hits: int
    misses: int


class Kernel:
    """A compiled attention. `flashc.compile` makes it; calling it launches it."""

    def __init__(self, request: Request, can_launch: bool = False) -> None:
        self._specialization, self._request = request.specialization, request
        self._can_launch = can_launch
        self._compiled = request.specialization.compile(code=request.code)
        self._cases: Dict[Tuple[Any, ...], Case] = {}
        self._launchers: Dict[Tuple[Any, ...], Launcher] = {}

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
        """The choices for every entry of the kernel, with reasons, as text (docs/schedules.md); empty for the CPU."""
        return self._compiled.decisions()

    @property
    def cost(self) -> Cost:
        """The cost of a call with the shapes that were given to `flashc.compile`."""
        request = self._request
        shapes = {**request.shapes(), **{name: shape_of(request.inputs[name], False) for name in request.vectors()}}
        frame = Frame([shapes[argument["name"]] for argument in self.manifest["arguments"]])
        cost = self._compiled.cost(ctypes.cast(frame.address, ctypes.POINTER(library.Argument)), frame.count)
        return Cost(*(int(getattr(cost, name)) for name in Cost._fields))

    @property
    def mask_maps(self) -> MaskMaps:
        """The maps of the mask's tiles on the GPUs that the kernel was called on (docs/masks.md)."""
        every = [launcher.loaded.mask_maps() for launcher in self._launchers.values()]
        return MaskMaps(*(sum(getattr(one, name) for one in every) for name in MaskMaps._fields))

    @public
    def ir(self, level: str) -> str:
        """The program at a level: "flash", "loops", and for a GPU "tile", "nvvm" or "llvm".

        Raises:
            flashc.Error: there is no such level, or not for this target.
        """
        return self._compiled.ir(level)

    @public
    def __call__(self, q: Any, k: Any, v: Any, *, return_lse: bool = False, out: Any = None) -> Any:
        """Runs the kernel on arrays, which may have another batch, heads, lengths and strides than at compilation,
        unless it was compiled with `static_shapes=True`. The sinks, and the arrays that the mask and the score read,
        are those of `flashc.compile`.

        Args:
            q, k, v, return_lse, out: as for `flashc.attention`. A kernel that was compiled with `return_lse=False`
                cannot return the log-sum-exp.
        """
        outs = [] if out is None else split_out(out)
        if (return_lse or out is not None and outs[1] is not None) and not self._specialization.options.return_lse:
            raise ArgumentError("expected a kernel with the log-sum-exp, got one that was compiled with "
                                "return_lse=False")
        if not self._can_launch:
            raise ArgumentError("expected a kernel whose mask, score and sinks are arrays with elements, got one that "
                                "was compiled with ArraySpec for them")
        vectors = {name: self._request.inputs.owners[name] for name in self._request.vectors()}
        inputs = Inputs({"q": q, "k": k, "v": v, **vectors}, refuses=False)
        if (inputs.device == CPU) != (self.target == CPU_TARGET):
            raise ArgumentError(f"expected arrays for a kernel for {self.target}, got them on "
                                f"{device_name(inputs.device)}")
        for array in (*self._request.code.arrays, *(inputs[name] for name in self._request.vectors())):
            if array.device != inputs.device:
                raise ArgumentError(f"expected q on {device_name(array.device)}, where the arrays of the mask, the "
                                    f"score and the sinks are, got it on {device_name(inputs.device)}")
            wait_for(array, inputs.stream)
        case = case_of(self._case, inputs, self._request.options, self._cases)
        results = case(inputs, self._request.code, outs, unseen=() if return_lse else ("lse",))
        return tuple(results) if return_lse else results[0]

    def _case(self, inputs: Inputs, options: Options) -> Case:
        it = self._specialization
        extents = check_inputs(inputs["q"], inputs["k"], inputs["v"], options.is_bshd, options.enable_gqa)
        for what, have, want in (("element type", extents.dtype, it.dtype), ("D", extents.head_dim, it.head_dim),
                                 ("Dv", extents.value_dim, it.value_dim)):
            if have != want:
                raise ArgumentError(f"expected arrays for a kernel of {what} {want}, got {have}")
        if 0 not in extents[:5] and extents.query_heads != extents.key_heads * it.group_size:
            raise ArgumentError(f"expected arrays for a kernel of {it.group_size} query heads per key head, got "
                                f"{extents.query_heads} over {extents.key_heads}")
        check_vectors(inputs, extents)
        results = attention_results(extents, options, lies_exchanged(inputs["q"], options.is_bshd, inputs.sources["q"]))
        case = attention_case(inputs, it, extents, results, options.is_bshd)
        case.compiled, case.launchers = self._compiled, self._launchers
        return case


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
        q, k, v: arrays, or `flashc.ArraySpec(shape, dtype)`. The elements of arrays do not matter. The kernel later
            takes any batch, any heads in the same ratio, and any lengths and strides.
        causal, window, scale, mask, score, sinks, enable_gqa, layout, schedule, static_shapes: as for
            `flashc.attention`. A mask array and the sinks may be an ArraySpec; then the kernel can be looked at, not
            called.
        return_lse: whether the kernel computes the log-sum-exp, which calls may then return. `flashc.attention` without
            `return_lse` has kernels without it.
        target: "sm_90a", or "cpu" for this machine's processor. None: that of the arrays; "sm_90a" for ArraySpec.

    Returns:
        A `flashc.Kernel`.

    Raises:
        flashc.CompileError: the compiler refuses; the text is its diagnostics.
        flashc.ArgumentError, flashc.UnsupportedTypeError, flashc.TraceError: as for `flashc.attention`.
    """
    options = Options(causal, window, scale, 0.0, enable_gqa, return_lse, layout, schedule, static_shapes).checked()
    request = make_request(Operands(q, k, v, mask, score, sinks), options, target)
    arrays = (*request.code.arrays, *(request.inputs[name] for name in request.vectors()))
    return Kernel(request, all(array.address or not isinstance(array.owner, ArraySpec) for array in arrays))


class Request(NamedTuple):
    """The checked arguments of `flashc.compile`."""
    specialization: Specialization
    code: Code
    inputs: Inputs
    extents: Extents
    options: Options

    def vectors(self) -> Tuple[str, ...]:
        return self.specialization.vectors

    def shapes(self) -> Dict[str, Any]:
        """Returns the shapes of a call's arguments by name. The order is q, k, v, captures, results."""
        extents = [shape_of(self.inputs[name], self.options.is_bshd)[0] for name in "qkv"]
        shapes = {name: (shape, contiguous_strides(shape)) for name, shape in zip("qkv", extents)}
        shapes.update((capture.name, (one.extents, one.strides))
                      for capture, one in zip(self.code.captures, self.code.bound))
        options = self.options._replace(layout="bhsd")
        shapes.update((result.name, result.new_shape()) for result in attention_results(self.extents, options))
        return shapes


def make_request(operands: Operands, options: Options, target: Optional[str]) -> Request:
    """Checks the arguments of `flashc.compile`, except `options`, which are checked already."""
    if target is not None:
        encoded("target", target)
    inputs = Inputs(operands.arrays(), refuses=False)
    devices = {inputs[name].device for name in "qkv" if not isinstance(inputs.owners[name], ArraySpec)}
    if len(devices) > 1:
        raise ArgumentError(f"expected q, k and v on one device, got {', '.join(map(device_name, sorted(devices)))}")
    if target is None:
        target = CPU_TARGET if devices == {CPU} else GPU_TARGET
    # Devices are not compared: an ArraySpec has no device, and a kernel for another device may be compiled from any
    # arrays.
    q, k, v = (inputs[name]._replace(device=CPU) for name in "qkv")
    extents = check_inputs(q, k, v, options.is_bshd, options.enable_gqa)
    if extents.dtype == "f64":
        raise UnsupportedTypeError("expected q, k and v of bf16, f16 or f32 for a kernel to look at, got f64, which "
                                   "runs as it is written")
    if extents.key_heads == 0:
        raise ArgumentError("expected at least one head, got none")
    code = make_code(operands.mask, operands.score, extents, None, None)
    if operands.mask is not None and not callable(operands.mask) and operands.score is None:
        # The kernel may be called with other extents, which must not exceed the extents of the mask.
        code = code._replace(needs=tuple(Need(dim, 1, number, dim) for number, array in enumerate(code.arrays)
                                         for dim, extent in enumerate(array.shape) if extent != 1))
    code.check((extents.batch, extents.query_heads, extents.queries, extents.keys))
    if options.static_shapes and 0 in extents:
        raise ArgumentError(f"expected extents of at least 1 for static_shapes=True, got {extents}")
    inputs.widen("sinks", sum_dtype(extents.dtype))
    vectors = check_vectors(inputs, extents, is_launched=False)
    return Request(specialize(extents, options, target, vectors).of(code), code, inputs, extents, options)
