"""`Operands` and `Options` hold the arguments of a call. Public functions parse and check arguments once; inner
functions take both objects. So a new argument is one new field here."""
from __future__ import annotations

import math
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import library
from .library import ArgumentError, UnsupportedTypeError, described, encoded, parse_flag

Window = Union[None, int, Sequence[Optional[int]]]


class Vector(NamedTuple):
    """A one-dimensional array that a call may take in addition to q, k and v."""
    #: The array's extent. None: the number of query heads.
    length: Optional[int]
    #: The array's shape, as messages print it.
    shape: str
    #: The element type. None: the type of the log-sum-exp.
    dtype: Optional[str]
    #: The option of FlashcAttention that says that the array is given. None: another option implies it.
    option: Optional[str]


#: The vectors "sinks" and "philox" by their names in the manifest, in the order of the last fields of Operands.
VECTORS = {"sinks": Vector(None, "[Hq]", None, "sinks"), "philox": Vector(2, "[seed and offset]", "i64", None)}


class Operands(NamedTuple):
    """The arrays of an attention, and its mask and score. These are functions that may read other arrays."""
    q: Any
    k: Any
    v: Any
    mask: Any = None
    score: Any = None
    sinks: Any = None
    philox: Any = None

    def arrays(self) -> Dict[str, Any]:
        """Returns the arrays by name, without the mask and the score."""
        arrays = {"q": self[0], "k": self[1], "v": self[2]}
        for name, x in zip(VECTORS, self[5:]):
            if x is not None:
                arrays[name] = x
        return arrays


_FLAGS = "causal", "enable_gqa", "return_lse", "static_shapes", "deterministic", "batch_invariant"
_NONE = type(None)
# A layout is first compared by identity with these objects, because that is fast.
_BHSD, _BSHD = "bhsd", "bshd"


class Options(NamedTuple):
    """The options of a call. Together with shapes and element types they decide which kernel the call needs."""
    causal: bool = False
    #: None, or (left, right) after `checked`. A negative number means no limit.
    window: Any = None
    #: None: 1 / sqrt(D).
    scale: Optional[float] = None
    dropout_p: float = 0.0
    enable_gqa: bool = False
    #: Whether the log-sum-exp is an output. In the backward pass: whether its gradient is an input.
    return_lse: bool = False
    layout: str = "bhsd"
    schedule: Optional[str] = None
    static_shapes: bool = False
    deterministic: Optional[bool] = None
    #: A value of FlashcOperation.
    operation: int = library.ATTENTION
    splits: Optional[int] = None
    batch_invariant: bool = False

    @property
    def is_bshd(self) -> bool:
        return self.layout == "bshd"

    def checked(self, philox: Any = None) -> "Options":
        """Checks the options that a caller gave. Returns options whose fields all have their declared types."""
        causal, window, scale, dropout_p, enable_gqa, return_lse, layout, schedule, static_shapes, deterministic, \
            operation, splits, batch_invariant = self
        if type(causal) is not bool or type(enable_gqa) is not bool or type(return_lse) is not bool or \
                type(static_shapes) is not bool or type(batch_invariant) is not bool or \
                type(deterministic) not in (bool, _NONE):
            return self._replace(**{name: parse_flag(name, getattr(self, name)) for name in _FLAGS if name !=
                                    "deterministic" or deterministic is not None}).checked(philox)
        if layout is not _BHSD and layout is not _BSHD:
            layout = _BSHD if check_layout(layout) else _BHSD
        if schedule is not None:
            encoded("schedule", schedule)
        if window is not None:
            window = parse_window(window)
        if scale is not None and type(scale) is not float:
            scale = parse_scale(scale)
        if philox is not None or type(dropout_p) is not float or dropout_p:
            dropout_p = parse_dropout(dropout_p, philox)
        elif window is self.window and scale is self.scale and layout is self.layout:
            return self
        return Options(causal, window, scale, dropout_p, enable_gqa, return_lse, layout, schedule, static_shapes,
                       deterministic, operation, splits, batch_invariant)

    def of_kernel(self, head_dim: int) -> "Options":
        """Returns the options with defaults in the fields on which a kernel does not depend."""
        is_backward = self.operation >= library.ATTENTION_BACKWARD
        return self._replace(scale=parse_scale(self.scale, head_dim), enable_gqa=False, layout="bhsd",
                             static_shapes=False, splits=None, batch_invariant=False,
                             deterministic=self.deterministic if is_backward else None)

    def mask(self) -> Tuple[int, Tuple[int, int]]:
        """Returns the FlashcMask and its window (left, right)."""
        left, right = (-1, -1) if self.window is None else self.window
        if self.causal:
            right = 0
        kind = {(-1, 0): library.MASK_CAUSAL, (-1, -1): library.MASK_NONE}.get((left, right), library.MASK_WINDOW)
        return kind, (left, right)

    def named(self) -> List[str]:
        """Returns the entries of FlashcAttention::options."""
        rate = [f"dropout_p={self.dropout_p!r}"] if self.dropout_p else []
        return rate + (["deterministic"] if self.deterministic else [])


def parse_window(window: Window) -> Optional[Tuple[int, int]]:
    """Returns the window as (left, right). A negative number is no bound."""
    if window is None:
        return None
    if isinstance(window, (tuple, list)):
        if len(window) != 2:
            raise ArgumentError(f"expected window to be (left, right), got {window!r}")
        left, right = window
    else:
        left, right = window, 0
    return _parse_side("left", left), _parse_side("right", right)


def _parse_side(side: str, value: Any) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        number = -1 if value is None else value.__index__()
    except (AttributeError, TypeError):  # an array of several numbers has the method too
        raise UnsupportedTypeError(
            f"expected the {side} side of window to be an integer or None, got {value!r}") from None
    return -1 if number < 0 or number >= 2**30 else number  # no key is as far as 2^30


def parse_scale(scale: Any, head_dim: Optional[int] = None) -> float:
    """Returns the scale, which must fit into 32 bits. None gives 1 / sqrt(head_dim)."""
    if scale is None:
        if not head_dim:
            raise ArgumentError("expected a head dimension of at least 1, got 0")
        return 1.0 / math.sqrt(head_dim)
    try:
        value = None if isinstance(scale, (str, bytes, bool)) else float(scale)
    except OverflowError:
        value = math.inf
    except (TypeError, ValueError):
        value = None
    if value is None:
        raise UnsupportedTypeError(f"expected scale to be a number or None, got {described(scale)}")
    if not math.isfinite(value) or abs(value) > 3.4028234663852886e38:
        raise ArgumentError(f"expected a finite scale of 32 bits, got {value}")
    return value


def parse_dropout(dropout_p: Any, philox: Any = None) -> float:
    """Returns the rate, rounded to a multiple of 1/256. 0.0 means no dropout."""
    try:
        p = float(dropout_p)
    except (TypeError, ValueError):
        raise UnsupportedTypeError(f"expected dropout_p to be a number, got {dropout_p!r}") from None
    if p == 0.0:
        if philox is not None:
            raise ArgumentError("expected dropout_p together with philox, got 0")
        return 0.0
    rate = math.floor(p * 256 + 0.5) / 256 if 0.0 <= p <= 1.0 else -1.0
    if not 0.0 < rate < 1.0:
        raise ArgumentError(f"expected dropout_p to be 0, or nearest to one of 1/256 to 255/256, got {p}")
    return rate


def check_layout(layout: str) -> bool:
    """Returns whether the layout is "bshd"; refuses any but "bhsd" and "bshd"."""
    if not isinstance(layout, str) or layout not in ("bhsd", "bshd"):
        raise ArgumentError(f"expected layout 'bhsd' ([B, H, N, D]) or 'bshd' ([B, N, H, D]), got {described(layout)}")
    return layout == "bshd"
