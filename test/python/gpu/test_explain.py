"""flashc.explain copies tensors that bound loops from the GPU."""
import pytest

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("no GPU", allow_module_level=True)

import flashc  # noqa: E402


def test_lengths_on_the_gpu():
    q = torch.empty(3, 2, 300, 64, dtype=torch.bfloat16, device="cuda")
    k = torch.empty(3, 2, 700, 64, dtype=torch.bfloat16, device="cuda")
    # The lengths are strided, and another stream is still writing them when flashc.explain is called.
    table = torch.zeros(3, 5, dtype=torch.int32, device="cuda")
    lengths = table[:, 3]
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(10_000_000)
        lengths += torch.tensor([1, 699, 256], dtype=torch.int32, device="cuda")
    explanation = flashc.explain(q, k, k, mask=lambda b, h, i, j: j < lengths[b])
    columns = explanation.tile[1]
    assert explanation.mask_class == "exact"
    for batch, length in enumerate((1, 699, 256)):
        whole, part = divmod(length, columns)
        row = ([2] * whole + [1] * (part > 0) + [0] * explanation.columns)[:explanation.columns]
        assert explanation.tiles[batch] == [[row] * explanation.rows] * 2
    # The same lengths on the host give the same tiles.
    host = lengths.cpu()
    specs = [flashc.ArraySpec(x.shape, "bf16") for x in (q, k, k)]
    assert flashc.explain(*specs, mask=lambda b, h, i, j: j < host[b]).tiles == explanation.tiles


def test_a_mask_of_elements_is_not_read():
    q = torch.empty(1, 2, 300, 64, dtype=torch.bfloat16, device="cuda")
    bits = torch.ones(300, 300, dtype=torch.bool, device="cuda")
    explanation = flashc.explain(q, q, q, mask=bits)
    assert explanation.mask_class != "exact" and explanation.skipped == 0
