#!/usr/bin/env python3
"""Times the masks and scores of attention-gym with flashc and compiled FlexAttention, forward and backward, on a GPU.

  gym_masks.py [--d D] [--only NAME,...] [--csv FILE] [--kernels] [--schedule FIELDS] [--seconds S]

attention-gym (github.com/meta-pytorch/attention-gym) must be on PYTHONPATH, because its generator functions make the
masks and scores. FlexAttention's BlockMask and flashc's plan are made before timing. "fresh" is flashc without a plan,
which finds the tiles of the mask in every call. "build" is the time of create_block_mask. Each contender is a CUDA
graph of calls. All take turns, and the best of several rounds counts. Outputs and gradients are compared with
FlexAttention's. A row has the mask class that flashc.explain reports, and the milliseconds of the forward pass and of
both passes. --kernels adds the time of each kernel of a call without a plan (torch.profiler). --schedule overrides the
forward schedule.
"""
import argparse
import csv
import random
import sys
import time

import torch
import torch.nn.functional as F
from attn_gym import masks, mods
from attn_gym.masks import document_mask, vsa
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import flashc
import flashc.torch
from gpu_measure.graphs import capture, times_of

ROUNDS = 5
#: Tokens in a tile of video. By default, FlexAttention does not take smaller blocks.
VSA_TILE = 128


def documents(keys, count):
    random.seed(0)
    return document_mask.length_to_offsets(document_mask.generate_random_lengths(keys, count), "cuda").int()


def longformer(keys):
    is_global = torch.zeros(keys, dtype=torch.bool, device="cuda")
    is_global[:64] = True
    return masks.generate_global_sliding_window(512, is_global)


def jetspec_tree(prefix, nodes):
    random.seed(0)
    parents = [-1, *(random.randrange(node) for node in range(1, nodes))]
    return masks.generate_jetspec_tree_causal_mask_mod(prefix, masks.build_tree_ancestor_matrix(parents))


def shared_prefix(keys, count):
    offsets = documents(keys, count)
    prefix = torch.arange(count, device="cuda", dtype=torch.int32) // 4 * 4
    return masks.generate_shared_prefix_mask_mod(offsets, prefix)


def flamingo(queries, keys, tokens):
    images = keys // tokens
    begin = torch.arange(images, device="cuda", dtype=torch.int32) * (queries // images)
    return masks.generate_vision_cross_attention_mask_mod(torch.stack([begin, begin + queries // images], 1), tokens)


def vsa_tiles(heads, tiles, count):
    return torch.rand(1, heads, tiles, tiles, device="cuda").topk(count, dim=-1).indices


def vsa_block_map(heads, keys):
    tiles = keys // VSA_TILE
    block_map = torch.zeros(1, heads, tiles, tiles, dtype=torch.bool, device="cuda")
    block_map.scatter_(-1, vsa_tiles(heads, tiles, tiles // 8), True)
    return vsa.generate_vsa_block_map_mask_mod(block_map, VSA_TILE)


def vsa_tables(heads, keys, has_padding=False):
    tiles = keys // VSA_TILE
    sizes = torch.randint(VSA_TILE // 2, VSA_TILE + 1, (tiles,), device="cuda") if has_padding else None
    return vsa.create_vsa_block_mask(vsa_tiles(heads, tiles, tiles // 8), VSA_TILE, tiles, sizes)


def graphormer(heads, keys):
    distances = torch.randint(0, 10, (1, keys, keys), device="cuda", dtype=torch.int32)
    return mods.graphormer.generate_graphormer_spatial_bias(torch.randn(heads, 10, device="cuda"), distances)


def activation(function):
    return mods.activation.generate_activation_score_mod(function)


#: {case: (heads, queries, keys, a function that makes the mask or the score)}. A mask is a function or a BlockMask, and
#: `heads` is the number of heads that it distinguishes.
CASES = {
    "causal": (16, 8192, 8192, lambda: {"mask": masks.causal_mask}),
    "prefix_lm": (16, 8192, 8192, lambda: {"mask": masks.generate_prefix_lm_mask(1024)}),
    "sliding_window": (16, 8192, 8192, lambda: {"mask": masks.generate_sliding_window(1024)}),
    "dilated_window": (16, 8192, 8192, lambda: {"mask": masks.generate_dilated_sliding_window(1024, 4)}),
    "longformer": (16, 8192, 8192, lambda: {"mask": longformer(8192)}),
    "batchify_causal": (16, 8192, 8192, lambda: {"mask": masks.batchify_mask_mod(masks.causal_mask, 1024)}),
    "doc_causal": (16, 8192, 8192,
                   lambda: {"mask": masks.generate_doc_mask_mod(masks.causal_mask, documents(8192, 12))}),
    "packed_doc_causal": (16, 8192, 8192,
                          lambda: {"mask": masks.generate_packed_causal_doc_mask_mod(documents(8192, 12))}),
    "shared_prefix": (16, 8192, 8192, lambda: {"mask": shared_prefix(8192, 16)}),
    "block_diffusion": (16, 8192, 8192, lambda: {"mask": masks.generate_block_diffusion_mask(4096, 32)}),
    "jetspec_training": (16, 4096, 8192, lambda: {"mask": masks.generate_jetspec_training_mask_mod(4096, 16)}),
    "jetspec_tree": (16, 512, 8192, lambda: {"mask": jetspec_tree(7680, 512)}),
    "natten": (16, 16384, 16384, lambda: {"mask": masks.generate_natten(128, 128, 13, 13)}),
    "tiled_natten": (16, 16384, 16384, lambda: {"mask": masks.generate_tiled_natten(128, 128, 13, 13, 8, 8)}),
    "morton_natten": (16, 16384, 16384, lambda: {"mask": masks.generate_morton_natten(128, 128, 13, 13)}),
    "sta_2d": (16, 9216, 9216, lambda: {"mask": masks.generate_sta_mask_mod_2d((96, 96), (48, 48), (16, 16))}),
    "sta_3d": (16, 8448, 8448,
               lambda: {"mask": masks.generate_sta_mask_mod_3d((8, 32, 32), (8, 16, 16), (4, 8, 8), 256)}),
    "svg_spatial": (8, 17776, 17776, lambda: {"mask": masks.generate_spatial_head_mask_mod()}),
    "svg_spatial_sink": (8, 17776, 17776, lambda: {"mask": masks.generate_spatial_head_mask_mod(attn_sink=True)}),
    "svg_temporal": (8, 17776, 17776, lambda: {"mask": masks.generate_temporal_head_mask_mod()}),
    "flamingo": (16, 8192, 8192, lambda: {"mask": flamingo(8192, 8192, 256)}),
    "vsa_block_map": (8, 16384, 16384, lambda: {"mask": vsa_block_map(8, 16384), "heads": 8}),
    "vsa_tables": (8, 16384, 16384, lambda: {"mask": vsa_tables(8, 16384)}),
    "vsa_tables_and_padding": (8, 16384, 16384, lambda: {"mask": vsa_tables(8, 16384, has_padding=True)}),
    "alibi": (16, 8192, 8192, lambda: {"score": mods.alibi.generate_alibi_bias(16)}),
    "sandwich": (16, 8192, 8192, lambda: {"score": mods.sandwich.generate_sandwich_bias(16, 8192, device="cuda")}),
    "softcap": (16, 8192, 8192, lambda: {"score": mods.softcapping.generate_tanh_softcap(30)}),
    "graphormer_spatial": (16, 4096, 4096, lambda: {"score": graphormer(16, 4096)}),
    "activation_relu": (16, 8192, 8192, lambda: {"score": activation(F.relu)}),
    "activation_silu": (16, 8192, 8192, lambda: {"score": activation(F.silu)}),
    "activation_sigmoid": (16, 8192, 8192, lambda: {"score": activation(F.sigmoid)}),
    "activation_gelu": (16, 8192, 8192, lambda: {"score": activation(F.gelu)}),
}


def time_all(graphs):
    """Returns the milliseconds of a call of each graph."""
    return [min(times) for times in times_of(dict(enumerate(graphs)), ROUNDS).values()]


def profile(call):
    """Returns (name, milliseconds) of the kernels of a call."""
    call()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as result:
        call()
        torch.cuda.synchronize()
    return [(event.key, event.device_time_total / 1000) for event in result.key_averages()]


def apart(x, y):
    return ((x.float() - y.float()).norm() / y.float().norm()).item()


def run(name, depth, args):
    heads, queries, keys, make = CASES[name]
    torch.manual_seed(0)
    made = make()
    mask, score = made.get("mask"), made.get("score")
    q = torch.randn(1, heads, queries, depth, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    k, v = (torch.randn(1, heads, keys, depth, device="cuda", dtype=torch.bfloat16, requires_grad=True)
            for _ in range(2))
    do = torch.randn_like(q)
    build, tables = None, mask
    is_function = mask is not None and not hasattr(mask, "mask_mod")
    if is_function:
        def make_tables():
            return create_block_mask(mask, None, made.get("heads"), queries, keys, device="cuda")
        tables = make_tables()
        torch.cuda.synchronize()
        begin = time.time()
        for _ in range(3):
            make_tables()
        torch.cuda.synchronize()
        build = (time.time() - begin) / 3 * 1000
    flex = torch.compile(flex_attention, dynamic=False)

    planned = flashc.plan_mask(mask, queries, keys) if is_function else mask

    def ours(mask=planned):
        if args.schedule:
            return flashc.attention(q.detach(), k.detach(), v.detach(), mask=mask, score=score, schedule=args.schedule)
        return flashc.torch.flex_attention(q, k, v, score_mod=score, block_mask=mask)

    def theirs():
        return flex(q, k, v, score_mod=score, block_mask=tables)

    def with_gradients(call):
        return lambda: torch.autograd.grad(call(), (q, k, v), do)

    row = {"case": name, "d": depth, "class": "-"}
    fresh = []
    if is_function:
        row["class"] = flashc.explain(q.detach(), k.detach(), v.detach(), mask=mask, score=score).mask_class
        with torch.no_grad():
            # Without a call before the capture there is no map of tiles yet, so the graph contains the kernels that
            # make it.
            fresh = [capture(lambda: ours(mask), warm_up=0)]
    row["apart"] = apart(ours(), theirs())
    calls = [ours, theirs]
    if not args.schedule and not args.forward:
        calls += [with_gradients(ours), with_gradients(theirs)]
        row["gradients apart"] = max(apart(x, y) for x, y in zip(calls[2](), calls[3]()))
    graphs = []
    for number, call in enumerate(calls):
        with torch.no_grad() if number < 2 else torch.enable_grad():
            graphs.append(capture(call, warm_up=3))
    times = time_all(graphs + fresh)
    for title, our_time, their_time in zip(("forward", "both"), times[::2], times[1::2]):
        row.update({title: our_time, f"flex {title}": their_time, f"{title} ratio": their_time / our_time})
    if fresh:
        row.update({"fresh": times[-1], "build": build, "fresh ratio": (build + row["flex forward"]) / times[-1]})
    print("  ".join(f"{key} {value:.3g}" if isinstance(value, float) else f"{value}" for key, value in row.items()),
          flush=True)
    if args.kernels:
        for kernel, spent in profile(lambda: ours(mask)):
            print(f"    {spent:8.4f} ms  {kernel[:90]}", flush=True)
    return row


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--d", type=int, default=128)
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--csv")
    parser.add_argument("--schedule")
    parser.add_argument("--kernels", action="store_true")
    parser.add_argument("--forward", action="store_true", help="not the backward pass")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no case after that many")
    args = parser.parse_args()
    torch._dynamo.config.cache_size_limit = torch._dynamo.config.recompile_limit = 1000
    warm = torch.zeros(1, 1, 64, 64, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    flashc.attention(warm, warm, warm, causal=True).sum().backward()  # makes the memory pool, as captures cannot
    begin, rows = time.time(), []
    for name in args.only.split(","):
        if time.time() - begin > args.seconds:
            print("no time for", name)
            continue
        try:
            rows.append(run(name, args.d, args))
        except Exception as error:  # the next case may work
            print(name, "failed:", repr(error)[:300], flush=True)
        torch.cuda.empty_cache()
    for title in ("forward ratio", "both ratio", "fresh ratio"):
        ratios = [row[title] for row in rows if title in row]
        if ratios:
            mean = torch.tensor(ratios).log().mean().exp().item()
            print(f"{title}: {len(ratios)} cases, geometric mean {mean:.3f}, least {min(ratios):.3f}")
    if args.csv:
        with open(args.csv, "w", newline="") as file:
            writer = csv.DictWriter(file, list(dict.fromkeys(key for row in rows for key in row)))
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    sys.exit(main())
