"""Which kernel reads a cache, and with which schedule: each line of choices.txt has a question and the compiler's
answer.

If an answer changes, that is a decision: write the new answer to the file, and say in the commit why it is better.
"""
import ctypes
import os

import pytest

from flashc._runtime import contexts, library

PATH = os.path.join(os.path.dirname(__file__), "choices.txt")
TYPES = {"none": None, "f8": "f8e4m3", "i8": "i8"}


def read_questions():
    with open(PATH) as file:
        lines = [line.split("#")[0].strip() for line in file]
    return [tuple(part.strip() for part in line.split("->")) for line in lines if line]


@pytest.fixture(scope="module")
def context():
    return contexts.Context(disk_cache=False, schedule_table="")


def describe(number, cache_dtype=None):
    """Describes an attention of bf16 that reads a cache. `number` has its extents."""
    return library.Attention(
        dtype=library.DTYPES["bf16"], head_dim=number["d"], value_dim=number["dv"], group_size=number["G"], scale=1.0,
        batch=number["B"], key_heads=number["Hk"], queries=number["T"], keys=number["N"], cache=True,
        page_size=number["page"], cache_type=library.CACHE_TYPES[cache_dtype])


def ask(context, question):
    """Returns the answer to a question. The words of a question are `key=value`, the flag `invariant`, or `asked:`
    followed by overrides."""
    words = question.split()
    given = dict(word.split("=", 1) for word in words if "=" in word and not word.startswith("asked:"))
    asked = next((word[len("asked:"):] for word in words if word.startswith("asked:")), None)
    number = {key: int(value) for key, value in given.items() if value.isdigit()}
    attention = describe(number, TYPES[given["cache"]])
    launch = library.CacheLaunch(number["sms"], number.get("splits", 0), "invariant" in words)
    try:
        kind, schedule = context.choose_kernel(attention, launch, given["target"], asked)
    except library.ArgumentError as error:
        return f"refused: {error}"
    return f"{('forward', 'decode')[kind]} {schedule}".strip()


def test_answers_are_those_that_were_recorded(context):
    questions = read_questions()
    assert len(questions) > 200
    changed = [f"{question} -> {answer}\n    was {recorded}" for question, recorded in questions
               if (answer := ask(context, question)) != recorded]
    assert not changed, "\n".join(changed)


def test_a_batch_does_not_change_the_bits_of_its_rows(context):
    for question, _ in read_questions():
        if "invariant" not in question:
            continue
        words = question.split()
        answers = {ask(context, " ".join(f"B={batch}" if word.startswith("B=") else word for word in words))
                   for batch in (1, 7, 300)}
        assert len(answers) == 1, question


def test_a_launch_says_all_its_extents(context):
    attention = describe(dict(d=64, dv=64, G=1, B=library.ANY, Hk=1, T=1, N=64, page=16))
    with pytest.raises(library.ArgumentError, match="expected a cache, its batch, key_heads, queries and keys"):
        context.choose_kernel(attention, library.CacheLaunch(132, 0, False), "sm_90a", None)
    for splits in (-1, 2):
        with pytest.raises(library.ArgumentError, match=f"expected splits to be positive, .*, got {splits}"):
            attention.batch = 1
            context.choose_kernel(attention, library.CacheLaunch(132, splits, True), "sm_90a", None)


def test_keys_are_cut_unless_the_mask_reads_an_array(context):
    """Keys are cut if only the score reads an array, even if the array's name (x1) is a prefix of the name (x10) of a
    scalar that the mask reads."""
    attention = describe(dict(d=208, dv=208, G=1, B=8, Hk=1, T=500, N=2048, page=8))
    extents = (ctypes.c_int64 * 1)(64)
    kinds = (b"x1", 1, extents), (b"x10", 0, None)
    captures = (library.Capture * 2)(*(library.Capture(name, library.DTYPES["i32"], *shape) for name, *shape in kinds))
    attention.captures, attention.num_captures = captures, 2
    for code, answer in ((b"%x10 %x1[", ""), (b"%x10", "splits=4")):
        attention.mask_code = code
        _, schedule = context.choose_kernel(attention, library.CacheLaunch(132, 0, False), "sm_90a", None)
        assert schedule == answer


def test_a_table_has_rows_for_decoding():
    table = "kind=decode key-bytes<=512: warps=2,stages=5,merge=kernel"
    context = contexts.Context(disk_cache=False, schedule_table=table)
    question = "target=sm_90a sms=132 cache=none page=16 d=128 dv=128 B=1 Hk=8 G=4 T=1 N={}"
    assert ask(context, question.format(65536)) == "decode warps=2,stages=5,splits=16,chunk=0,merge=kernel"
    assert ask(context, question.format(64)) == "decode warps=2,stages=5,splits=2,chunk=0,merge=kernel"
