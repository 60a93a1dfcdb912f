"""flashc as the attention of vLLM (docs/vllm.md).

    vllm serve MODEL --attention-backend CUSTOM

vLLM calls `register` when it starts, since the wheel of flashc names this function as a plugin
(`vllm.general_plugins`). Without an installed wheel, call `register()` before the engine is made.
"""
from __future__ import annotations

from .._runtime.public import public

__all__ = ["register"]

#: Where vLLM finds the backend. vLLM imports this module only if the backend is chosen.
BACKEND = "flashc.integrations._vllm_backend.FlashcBackend"


@public
def register() -> None:
    """Makes flashc the attention backend `CUSTOM` of vLLM. The backend is used where a user chooses it
    (`--attention-backend CUSTOM`, `LLM(attention_backend="CUSTOM")`). May be called several times.

    Raises:
        ImportError: if vLLM is not installed, or is older than version 0.32.
    """
    from vllm.v1.attention.backends.registry import AttentionBackendEnum, register_backend
    register_backend(AttentionBackendEnum.CUSTOM, BACKEND)
