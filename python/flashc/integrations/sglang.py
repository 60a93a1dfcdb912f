"""flashc as the attention of SGLang (docs/sglang.md).

    sglang serve MODEL --attention-backend flashc --page-size 16

SGLang calls `register` when it starts, since the wheel of flashc names this function as a plugin
(`sglang.srt.plugins`). Without an installed wheel, call `register()` before the engine is made.
"""
from __future__ import annotations

from typing import Any

from .._runtime.public import public

__all__ = ["NAME", "register"]

#: The name for `--attention-backend`.
NAME = "flashc"


@public
def register() -> None:
    """Makes flashc an attention backend of SGLang, which a user chooses by `--attention-backend flashc`. The backend is
    also one for `--enable-deterministic-inference`. May be called several times.

    Raises:
        ImportError: if SGLang is not installed, or is older than version 0.5.23.
    """
    from sglang.srt.arg_groups import choices
    from sglang.srt.layers.attention.attention_registry import register_attention_backend
    register_attention_backend(NAME)(_make)
    for names in (choices.ATTENTION_BACKEND_CHOICES, choices.DETERMINISTIC_ATTENTION_BACKEND_CHOICES,
                  choices.RADIX_SUPPORTED_DETERMINISTIC_ATTENTION_BACKEND):
        if NAME not in names:
            names.append(NAME)


def _make(runner: Any) -> Any:
    """Returns the backend of a model runner."""
    from ._sglang_backend import FlashcBackend
    return FlashcBackend(runner)
