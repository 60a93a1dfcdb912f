"""Runs examples/train.py at its tiny size on the CPU. It trains alike with flashc's attention and with PyTorch's, the
model sees only what it should, and wrong options are refused."""
import csv
import dataclasses
import importlib.util
import io
import math
import pathlib
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

PATH = pathlib.Path(__file__).resolve().parents[2] / "examples" / "train.py"


@pytest.fixture(scope="module")
def train():
    spec = importlib.util.spec_from_file_location("train_example", PATH)
    module = sys.modules["train_example"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def options_of(train, *more):
    return train.parse(["--device", "cpu", *more])


def batch_of(train, options):
    return train.Batches(options.sequences, options.length, options.seed).next("cpu")


def has_matplotlib():
    return importlib.util.find_spec("matplotlib") is not None


# --- The command ------------------------------------------------------------------------------------------------------

def test_both_train_alike(tmp_path):
    """Runs the command as a user does. In f32 both curves are the same, and the loss falls."""
    file = tmp_path / "losses.csv"
    result = subprocess.run([sys.executable, PATH, "--device", "cpu", "--steps", "8", "--control", "--csv", file],
                            capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stderr == "", "a bar where no terminal is"
    for text in ("first step", "tokens/s", "flashc and torch: losses at most", "on average"):
        assert text in result.stdout, result.stdout
    header, *rows = csv.reader(file.open())
    assert header == ["step", "torch", "flashc", "control"] and [row[0] for row in rows] == [str(n) for n in range(8)]
    for name, losses in zip(header[1:], zip(*([float(x) for x in row[1:]] for row in rows))):
        assert abs(losses[0] - math.log(256)) < 0.1 and losses[-1] < losses[0] - 0.7, (name, losses)
    apart = [abs(float(row[1]) - float(row[2])) for row in rows]
    assert max(apart) < 1e-4, apart


def test_one_of_them(train, capsys):
    run, = train.main(["--device", "cpu", "--steps", "1", "--attention", "flashc"])
    assert run.name == "flashc" and len(run.losses) == 1 and run.first_step > 0
    assert "no speed: too few steps" in capsys.readouterr().out


def test_a_bar_on_a_terminal(train, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    bar = train.Progress("flashc", 300)
    for done in (10, 11, 300):
        bar.show(done, torch.tensor(2.5))
    first, last = sys.stderr.getvalue().split("\r\x1b[K")[1:]
    assert "[#............" in first and "10/300  loss 2.500" in first and "300/300" in last


@pytest.mark.parametrize("arguments, message", [
    (["--attention", "mine"], "invalid choice: 'mine'"),
    (["--device", "tpu"], "invalid choice: 'tpu'"),
    (["--steps", "many"], "invalid int value: 'many'"),
    (["--steps", "0"], "expected --steps to be positive, got 0"),
    (["--window", "-1"], "expected --window to be positive, got -1"),
    (["--learning-rate", "0"], "expected --learning-rate to be positive, got 0"),
    (["--heads", "3", "--width", "96"], "expected --heads to be a multiple of --key-heads, got 3 and 2"),
    (["--width", "66"], "expected --width to be a multiple of --heads, got 66 and 4"),
    (["--width", "80"], "expected heads of 8, 16, ... 256 dimensions, got 20"),
    (["--length", "8"], "expected --length to be 16 or more"),
    (["--csv", "no/such/folder/a.csv"], "expected --csv in a folder that exists"),
    (["--picture", "losses.txt"], "expected --picture to end in .png, .pdf or .svg"),
])
def test_refusals(train, capsys, arguments, message):
    with pytest.raises(SystemExit) as exit:
        train.main(["--device", "cpu", *arguments])
    assert exit.value.code == 2 and message in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_no_gpu(train, capsys):
    with pytest.raises(SystemExit):
        train.main(["--device", "cuda"])
    assert "expected a GPU that PyTorch can use, got none" in capsys.readouterr().err


@pytest.mark.skipif(hasattr(torch.library, "custom_op"), reason="PyTorch is new enough")
def test_no_compile(train, capsys):
    with pytest.raises(SystemExit):
        train.main(["--device", "cpu", "--compile"])
    assert "expected PyTorch 2.4 or newer for --compile" in capsys.readouterr().err


def test_the_picture(train, capsys, tmp_path):
    """Without matplotlib, --picture is refused before training starts."""
    file = tmp_path / "losses.png"
    if has_matplotlib():
        train.draw([train.Run(name, "", [3.0, 2.0], 1.0, 1.0) for name in ("torch", "flashc")], "title", str(file))
        assert file.read_bytes().startswith(b"\x89PNG")
        return
    with pytest.raises(SystemExit):
        train.main(["--device", "cpu", "--picture", str(file)])
    output = capsys.readouterr()
    assert "--picture needs matplotlib" in output.err and not output.out


# --- The text ---------------------------------------------------------------------------------------------------------

def test_batches(train):
    """Equal seeds give equal batches, and a sequence has several documents. `documents` and `offsets` agree, and
    targets are the next bytes of the text."""
    options = options_of(train)
    batch, again = batch_of(train, options), batch_of(train, options)
    assert all(torch.equal(getattr(batch, field.name), getattr(again, field.name))
               for field in dataclasses.fields(batch))
    assert not torch.equal(batch.tokens, batch_of(train, options_of(train, "--seed", "1")).tokens)
    documents = batch.documents.flatten()
    count = int(documents[-1]) + 1
    assert torch.equal(torch.bincount(documents), batch.offsets.diff()[:count])
    assert (batch.offsets[count:] == documents.numel()).all() and batch.offsets[0] == 0
    text = [page.tobytes() for page in train.Batches(options.sequences, options.length, 0).pages]
    for row, sequence in enumerate(batch.documents):
        assert len(sequence.unique()) >= 2, "documents are packed"
        for number in sequence.unique():
            here = sequence == number
            tokens, targets = (bytes(x[row][here].tolist()) for x in (batch.tokens, batch.targets))
            assert tokens[1:] == targets[:-1] and any(tokens + targets[-1:] in page for page in text)
    # All batches have the same shapes, as a compiled graph needs.
    batches = train.Batches(options.sequences, options.length, 0)
    assert {batches.next("cpu").offsets.shape for _ in range(50)} == {batch.offsets.shape}


# --- The model --------------------------------------------------------------------------------------------------------

def logits_of(model, batch, tokens):
    with torch.no_grad():
        return model(dataclasses.replace(batch, tokens=tokens))


def differing(model, batch, row, position):
    """Returns where logits [sequences, length] change if one token changes."""
    tokens = batch.tokens.clone()
    tokens[row, position] ^= 1
    return (logits_of(model, batch, batch.tokens) != logits_of(model, batch, tokens)).any(-1)


@pytest.mark.parametrize("name", ["flashc", "torch"])
def test_documents_do_not_see_each_other(train, name):
    """Changing a token of the second document changes the logits from that token to the end of the document, and no
    others."""
    options = options_of(train)
    model, batch = train.make_model(name, options), batch_of(train, options)
    own = torch.nonzero(batch.documents[0] == 1).flatten()
    first, middle, last = int(own[0]), int(own[len(own) // 2]), int(own[-1])
    assert 0 < first < middle < last
    for position in (first, middle):
        changed = differing(model, batch, 0, position)
        assert changed[0, position:last + 1].all()
        changed[0, position:last + 1] = False
        assert not changed.any()


@pytest.mark.parametrize("name", ["flashc", "torch"])
def test_a_window_is_a_window(train, name):
    """With one layer and a window of 8, a token affects only itself and the next 8 tokens."""
    options = options_of(train, "--layers", "1", "--window", "8", "--sequences", "1")
    model, batch = train.make_model(name, options), batch_of(train, options)
    first = int(torch.nonzero(batch.documents[0] == 0)[0])
    assert (batch.documents[0] == 0).sum() > 10
    assert torch.nonzero(differing(model, batch, 0, first)[0]).flatten().tolist() == list(range(first, first + 9))


def test_gradients(train):
    """Compares the gradients of all parameters between both kinds of attention. The gradients of the sinks are not
    zero."""
    options, found = options_of(train), {}
    for name in ("flashc", "torch"):
        model, batch = train.make_model(name, options), batch_of(train, options)
        with torch.no_grad():
            for block in model.blocks:
                block.attention.sinks.copy_(torch.linspace(-1, 2, options.heads))
        train.loss_of(model, batch).backward()
        found[name] = {which: x.grad for which, x in model.named_parameters()}
    for which, x in found["flashc"].items():
        y = found["torch"][which]
        assert (x - y).abs().max() <= 1e-4 * y.abs().max(), which
        if which.endswith("sinks"):
            assert (x != 0).all(), (which, x)
