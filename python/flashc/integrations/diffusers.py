"""flashc as the attention of Hugging Face's diffusers: `apply(pipe)`, and `restore(pipe)`.

    from flashc.integrations import diffusers as door
    pipe = DiffusionPipeline.from_pretrained(name, torch_dtype=torch.bfloat16).to("cuda")
    door.apply(pipe)

The attention processors of a model stay its own. While a processor runs, its calls of
`torch.nn.functional.scaled_dot_product_attention` run on flashc's kernels. docs/integrations.md has the models that
were tried, and what is refused.
"""
from __future__ import annotations

import functools
from typing import Any, Dict, List, Tuple

import torch
from diffusers.hooks._helpers import AttentionProcessorRegistry
from diffusers.hooks.layer_skip import AttentionScoreSkipFunctionMode
from diffusers.models.attention_dispatch import AttentionBackendName
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from .._runtime.library import ArgumentError, described
from .._runtime.public import public
from ..torch import scaled_dot_product_attention

__all__ = ["apply", "restore"]

#: The package of diffusers' autoencoders. `apply` leaves them out of pipelines, since their attention has one head,
#: whose dimension exceeds 256.
_AUTOENCODERS = "diffusers.models.autoencoders"

#: The attribute of processors that names a backend of diffusers' dispatcher, and its value while flashc is applied: the
#: dispatcher then calls scaled_dot_product_attention.
_BACKEND, _NATIVE = "_attention_backend", AttentionBackendName.NATIVE

#: The attributes of a class that `_on_flashc` makes, and of its objects.
_BASE, _FORMER = "_flashc_base", "_flashc_former"


@public
def apply(model: Any) -> List[str]:
    """Makes the attention layers of a model run on flashc's kernels. May be called several times.

    Args:
        model: a pipeline, a model, or a part of a model such as one attention layer. All models of a pipeline are
            meant, except its autoencoders. Layers that share a processor change together.

    Returns:
        The names of the layers.

    Raises:
        flashc.ArgumentError: the model has no attention layers of diffusers, or a layer's processor is not an object
            whose class can change.

    A layer raises flashc.ArgumentError when it runs if its processor does not call scaled_dot_product_attention, as
    processors of linear attention, or if the layer is under context parallelism. It raises the errors of
    `flashc.torch.scaled_dot_product_attention` too.
    """
    layers = _layers(model)
    if not layers:
        raise ArgumentError(f"expected a model with attention processors of diffusers, got {described(model)}")
    changed: List[Any] = []
    for name, layer in layers:
        processor = layer.processor
        if not hasattr(type(processor), _BASE):
            try:
                processor.__class__ = _on_flashc(type(processor))
            except TypeError as error:
                for former in changed:
                    _restore(former)
                raise ArgumentError(f"expected the processor of {name} to be an object whose class can change, got "
                                    f"{described(processor)}: {error}") from None
            changed.append(processor)
            if hasattr(processor, _BACKEND):
                setattr(processor, _FORMER, vars(processor).get(_BACKEND))
        if hasattr(processor, _BACKEND):
            setattr(processor, _BACKEND, _NATIVE)
    return [name for name, _ in layers]


@public
def restore(model: Any) -> List[str]:
    """Makes the attention layers of a model run as they did before `apply`. A backend of diffusers' dispatcher that the
    program has set after `apply` stays.

    Args:
        model: as for `apply`. Layers that do not run on flashc stay as they are.

    Returns:
        The names of the layers that ran on flashc.
    """
    layers = [(name, layer) for name, layer in _layers(model) if hasattr(type(layer.processor), _BASE)]
    for _, layer in layers:
        if hasattr(type(layer.processor), _BASE):  # Layers may share a processor.
            _restore(layer.processor)
    return [name for name, _ in layers]


def _layers(model: Any) -> List[Tuple[str, Any]]:
    """Returns the attention layers of a pipeline, or of a module, with their names."""
    if isinstance(model, torch.nn.Module):
        parts: Dict[str, Any] = {"": model}
    else:
        parts = {name: part for name, part in getattr(model, "components", {}).items()
                 if isinstance(part, torch.nn.Module) and not type(part).__module__.startswith(_AUTOENCODERS)}
    return [(".".join(filter(None, (part, name))) or type(layer).__name__, layer)
            for part, module in parts.items() for name, layer in module.named_modules()
            if callable(getattr(layer, "processor", None))]


def _restore(processor: Any) -> None:
    former = vars(processor).pop(_FORMER, None)
    if vars(processor).get(_BACKEND) is _NATIVE:
        if former is None:
            delattr(processor, _BACKEND)
        else:
            setattr(processor, _BACKEND, former)
    processor.__class__ = getattr(type(processor), _BASE)


@functools.lru_cache(maxsize=None)
def _on_flashc(base: type) -> type:
    """Returns a class of processors that are called as those of `base`, with attention on flashc's kernels. Objects of
    `base` can change to this class, and keep their attributes and weights."""

    @functools.wraps(base.__call__)  # type: ignore[operator]
    def call(self: Any, *arguments: Any, **keywords: Any) -> Any:
        if getattr(self, "_parallel_config", None) is not None:
            raise ArgumentError(f"expected no context parallelism in {base.__name__}, got a _parallel_config: flashc "
                                "does not exchange keys between processes")
        calls: List[None] = []
        with _Attention(calls):
            result = base.__call__(self, *arguments, **keywords)  # type: ignore[operator]
        if not calls:
            raise ArgumentError(f"expected {base.__name__} to call scaled_dot_product_attention, but it computed "
                                "attention in another way, or by another backend: use another processor, or restore "
                                "this layer (flashc.integrations.diffusers.restore)")
        return result

    made = type(base.__name__, (base,), {"__call__": call, "__module__": base.__module__, "__doc__": base.__doc__,
                                         "__qualname__": base.__qualname__, _BASE: base})
    try:  # Hooks that skip layers look processors up by their class.
        AttentionProcessorRegistry.register(made, AttentionProcessorRegistry.get(base))
    except ValueError:
        pass
    return made


class _Attention(TorchFunctionMode):
    """Within this context scaled_dot_product_attention runs on flashc's kernels. `calls` gets an element for each."""

    def __init__(self, calls: List[None]) -> None:
        super().__init__()
        self._calls = calls

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        if function is functional.scaled_dot_product_attention:
            if _skips_scores():
                raise ArgumentError("expected no layers whose attention scores are skipped, got skip_attention_scores="
                                    "True: restore these layers (flashc.integrations.diffusers.restore)")
            self._calls.append(None)
            function = scaled_dot_product_attention
        return function(*arguments, **(keywords or {}))


def _skips_scores() -> bool:
    """Returns whether a hook of diffusers wants to see the calls of scaled_dot_product_attention: a mode sees none
    that a later mode has taken."""
    return any([isinstance(mode, AttentionScoreSkipFunctionMode)
                for mode in torch.overrides._get_current_function_mode_stack()])
