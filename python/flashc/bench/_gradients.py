"""The backward passes of the systems. A set of inputs is (q, k, v, do)."""

import torch

import flashc

from . import _peers


class FlashcGradients(_peers.Flashc):
    """flashc.attention_backward as a user calls it, with outputs allocated in every call. `keywords`, such as a
    schedule, are passed to the backward pass."""

    def _saved(self, cell, inputs):
        """Runs the forward pass. Returns the arguments of the backward pass."""
        q, k, v, do = inputs
        o, lse = flashc.attention(q, k, v, causal=cell.causal, enable_gqa=cell.group != 1, return_lse=True)
        return q, k, v, o, lse, do

    def _call(self, cell, saved, out=None):
        return flashc.attention_backward(*saved, causal=cell.causal, enable_gqa=cell.group != 1, out=out,
                                         **self.keywords)

    def prepare(self, cell, sets):
        return super().prepare(cell, [self._saved(cell, inputs) for inputs in sets])

    def poisoned_run(self, cell, inputs):
        """Returns dq, dk and dv, in arrays that were filled with NaN."""
        return self._call(cell, self._saved(cell, inputs), tuple(torch.full_like(x, float("nan")) for x in inputs[:3]))


class PeerGradients(_peers.System):
    """The backward pass of a peer, by PyTorch's autograd. `prepare` runs the forward pass once for each set of
    inputs."""

    def __init__(self, peer):
        self.peer, self.name, self.begin = peer, peer.name, peer.begin

    def prepare(self, cell, sets):
        self.peer.begin_backward()
        inputs = [tuple(x.detach().requires_grad_() for x in one[:3]) for one in sets]
        with torch.enable_grad():
            forward = self.peer.prepare(cell, inputs)
            with forward.around():
                outputs = [forward.result(forward.run(i)) for i in range(forward.count)]

        def run(i):
            return torch.autograd.grad(outputs[i], inputs[i], sets[i][3], retain_graph=True)

        try:
            with forward.around():
                run(0)
        except torch.cuda.OutOfMemoryError:
            raise
        except Exception as error:  # Compilers and kernels may raise anything. The peer has no backward pass here.
            torch.cuda.synchronize()
            raise _peers.Refused(_peers.first_line(error)) from None
        return _peers.Contender(run, forward.count, forward.around)


def backward_of(systems):
    """Returns the backward passes of the systems."""
    return [FlashcGradients(system.name, **system.keywords) if isinstance(system, _peers.Flashc) else
            PeerGradients(system) for system in systems]
