"""flashc.explain: the tiles of a call that are skipped, computed with the mask, and computed without it."""
from __future__ import annotations

import ctypes
import json
import re
from typing import Any, Callable, List, Optional, Tuple, Union

from . import _picture
from ._arrays.array import CPU, ITEM_SIZE, Array, ArraySpec, spoken
from ._arrays.cuda import copy_to_host
from ._arrays.protocol import ArrayLike
from ._runtime import contexts, library
from ._runtime.kernel import make_request
from ._runtime.launch import WORDS, Frame
from ._runtime.library import ArgumentError, CompileError, Error, OutOfMemoryError, described, path_text
from ._runtime.options import Operands, Options, Window
from ._runtime.public import public
from ._runtime.specialization import CPU_TARGET, GPU_TARGET
from ._trace.code import Code

#: The most bytes of an array on a GPU that is copied to the host. Arrays that loop bounds read are smaller, since they
#: have one element per batch, document or position.
_MAX_COPY = 1 << 28


class Explanation:
    """The result of `flashc.explain`. `str()` gives it as text.

    Attributes:
        mask_class: "exact" (a tile is visited only if it holds a pair that is kept, and masked only if it holds a pair
            that is not), "mapped" (the same, found by running the mask before the kernel; the counts here are those
            that are proven without running it), "conservative" (some tiles are visited or masked without need),
            "opaque" (all tiles are visited, and masked).
        reasons: why the mask is not exact.
        formulas: conditions that a kept pair (i, j) satisfies; an empty list: every pair is kept. "unknown: ..." is a
            part without a formula.
        bounds: the key tiles that are visited, as formulas of a tile's first query i0 and its number of queries, rows.
        tile: (queries, keys) of a tile.
        tile_source: the rule that gives the tile's shape.
        skipped, partial, full: the numbers of tiles that are not visited, visited with the mask, visited without it,
            over all heads of all batches.
        rows, columns: the numbers of tiles of queries and of keys of one head.
        counted_rows: the number of evenly spaced rows of tiles of a head that were counted. If it is less than `rows`,
            the counts are estimates from these rows, and there is no list of tiles and no picture.
        picture_block: a pixel of the picture stands for a block of picture_block x picture_block tiles; 1 for up to
            2048 tiles a side.
    """

    def __init__(self, explanation: contexts.Explanation) -> None:
        self._explanation = explanation
        facts = json.loads(explanation.json())
        self.mask_class: str = facts["mask_class"]
        self.reasons: List[str] = facts["reasons"]
        self.formulas: List[str] = facts["formulas"]
        self.bounds: List[str] = facts["bounds"]
        self.tile: Tuple[int, int] = tuple(facts["tile"])
        self.tile_source: str = facts["tile_source"]
        self.skipped: int = facts["counts"]["skipped"]
        self.partial: int = facts["counts"]["partial"]
        self.full: int = facts["counts"]["full"]
        self.rows: int = facts["rows"]
        self.columns: int = facts["columns"]
        self.counted_rows: int = facts["counted_rows"]
        self.picture_block: int = _picture.block_side(self.rows, self.columns)
        self._batch, self._heads = facts["batch"], facts["heads"]
        self._varies = facts["varies_by_batch"], facts["varies_by_head"]

    def __str__(self) -> str:
        return self._explanation.text()

    def __repr__(self) -> str:
        return (f"<flashc.Explanation {self.mask_class}: skipped {self.skipped}, partial {self.partial}, full "
                f"{self.full} tiles of {self.tile[0]} x {self.tile[1]}>")

    @property
    def tiles(self) -> List[List[List[List[int]]]]:
        """The class of each tile, [B][Hq][rows][columns]: 0 skipped, 1 partial, 2 full. Batches and heads that cannot
        differ share their lists.

        Raises:
            flashc.OutOfMemoryError: the tiles of a head are too many to list.
        """
        by_batch, by_head = self._varies
        heads = {(b, h): self._head(b, h) for b in range(self._batch if by_batch else 1)
                 for h in range(self._heads if by_head else 1)}
        return [[heads[b if by_batch else 0, h if by_head else 0] for h in range(self._heads)]
                for b in range(self._batch)]

    def _bytes(self, batch: int, head: int) -> bytes:
        if self.counted_rows < self.rows:
            raise OutOfMemoryError("there is no list of the tiles of a head: of its "
                                   f"{self.rows} rows {self.counted_rows} were counted")
        return self._explanation.tiles(batch, head, self.rows * self.columns)

    def _head(self, batch: int, head: int) -> List[List[int]]:
        data = self._bytes(batch, head)
        return [list(data[row * self.columns:(row + 1) * self.columns]) for row in range(self.rows)]

    @public
    def png(self, batch: int = 0, head: int = 0) -> bytes:
        """The tiles of one head as a PNG file: a row for each tile of queries from the top, a column for each tile of
        keys; skipped tiles light grey, partial tiles orange, full tiles blue. For more than 2048 tiles a side, a pixel
        stands for a block of tiles, orange unless all tiles of the block are skipped or all are full.

        Raises:
            flashc.ArgumentError: there is no such head.
            flashc.OutOfMemoryError: the tiles of a head are too many to list.
        """
        _check_number("batch", batch)
        _check_number("head", head)
        if not (batch < self._batch and head < self._heads):
            raise ArgumentError(f"expected a batch from 0 to {self._batch - 1} and a head from 0 to {self._heads - 1}, "
                                f"got {batch} and {head}")
        return _picture.draw(self._bytes(batch, head), self.rows, self.columns)


@public
def explain(q: Union[ArrayLike, ArraySpec], k: Union[ArrayLike, ArraySpec], v: Union[ArrayLike, ArraySpec], *,
            causal: bool = False, window: Window = None, scale: Optional[float] = None,
            mask: Union[ArrayLike, Callable[..., Any], None] = None, score: Optional[Callable[..., Any]] = None,
            enable_gqa: bool = False, return_lse: bool = False, layout: str = "bhsd", target: Optional[str] = None,
            schedule: Optional[str] = None, static_shapes: bool = False, png: Any = None, batch: int = 0,
            head: int = 0) -> Explanation:
    """Explains a call of `flashc.attention`: the class of its mask and why, the loop bounds as formulas, and which
    tiles of the kernel that these shapes would launch are skipped, masked, and computed without the mask.

    Nothing is computed and no GPU is needed. If loop bounds read arrays (lengths, document ids), their elements are
    read; arrays on a GPU are copied to the host.

    Args:
        q, k, v: arrays, or `flashc.ArraySpec(shape, dtype)`: their shapes and element type matter.
        causal, window, scale, mask, score, enable_gqa, return_lse, layout, schedule, static_shapes: as for
            `flashc.attention`.
        target: "sm_90a", or "cpu" for the loops that run for arrays on the host. None: "sm_90a", but "cpu" for f32.
        png: a file for the picture of one head (`Explanation.png`), or None.
        batch, head: the batch and the query head of the picture.

    Returns:
        A `flashc.Explanation`.

    Raises:
        flashc.CompileError: the compiler refuses; the text is its diagnostics. One of them: loop bounds read elements
            of an array for which an ArraySpec stands.
        flashc.ArgumentError, flashc.UnsupportedTypeError, flashc.TraceError: as for `flashc.attention`.
    """
    _check_number("batch", batch)
    _check_number("head", head)
    options = Options(causal, window, scale, 0.0, enable_gqa, return_lse, layout, schedule, static_shapes).checked()
    request = make_request(Operands(q, k, v, mask, score), options, GPU_TARGET if target is None else target)
    if 0 in request.extents[:5]:
        raise ArgumentError("expected extents of at least 1 to explain a call, got arrays without elements")
    specialization = request.specialization
    if target is None and specialization.dtype == "f32":
        specialization = specialization._replace(target=CPU_TARGET)
    frame = Frame(list(request.shapes().values()))
    keep = _bind(frame.words, request.code)
    arguments = ctypes.cast(frame.address, ctypes.POINTER(library.Argument))
    try:
        explanation = Explanation(contexts.context().explain(
            specialization.located(request.code).describe(), specialization.target, schedule, arguments, frame.count))
    except CompileError as error:
        raise CompileError(_describe_captures(str(error), request.code)) from None
    del keep
    if png is not None:
        data = explanation.png(batch, head)
        try:
            with open(path_text("png", png), "wb") as file:
                file.write(data)
        except OSError as error:
            raise Error(f"cannot write the picture {png}: {error.strerror}") from None
    return explanation


def _check_number(name: str, number: Any) -> None:
    if type(number) is not int or number < 0:
        raise ArgumentError(f"expected {name} to be the number of one, got {described(number)}")


def _describe_captures(message: str, code: Code) -> str:
    """Returns the compiler's message. If the message names a captured array, adds a hint: the array's name in the
    user's function, if it is known, its element type and its shape."""
    arrays = iter(code.arrays)
    for place, capture in enumerate(code.captures):
        if capture.shape:
            array = next(arrays)
            name = (code.labels[place:] or [""])[0] or capture.name
            hint = (f"; {name} is the captured {spoken(array.dtype)} array of shape {tuple(array.shape)}, whose "
                    "elements explain needs on the host, or on a GPU and few enough to copy")
            message = re.sub(rf"^(.*)\({capture.name}\)(.*)",
                             lambda found: f"{found[1]}({name}){found[2]}{hint}", message)
    return message


def _bind(words: Any, code: Code) -> List[Any]:
    """Writes the addresses of the captures on the host, and scalars, into `words`. Returns objects that own copied
    memory."""
    copies: List[Any] = []
    arrays = iter(code.arrays)
    for number, (capture, one) in enumerate(zip(code.captures, code.bound), 3):
        words[number * WORDS + 4] = one.scalar
        if capture.shape:
            words[number * WORDS] = _host_address(next(arrays), one.address, copies)
    return copies


def _host_address(array: Array, address: int, copies: List[Any]) -> int:
    """Returns the address of an array's elements on the host, which are copied if they are on a GPU. Returns 0 if there
    are no elements, or too many to copy."""
    if array.device == CPU or not address:
        return address
    span = 1 + sum((extent - 1) * stride for extent, stride in zip(array.shape, array.strides))
    if span * ITEM_SIZE[array.dtype] > _MAX_COPY:
        return 0
    copies.append(copy_to_host(array))
    return ctypes.addressof(copies[-1])
