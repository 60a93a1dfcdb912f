/*===- plain.h - kernels without scores, for C --------------------------------------------------------------------===*\
|*
|* The kernels of a decoding step before and after attention: the merge of partial results, and new tokens in caches.
|* flashc.h includes this header.
|*
\*===--------------------------------------------------------------------------------------------------------------===*/
#ifndef FLASHC_C_PLAIN_H
#define FLASHC_C_PLAIN_H

#include "flashc-c/flashc.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A merge of the results of attention over S parts of the keys (docs/merge-states.md). The kernel's arguments are,
 *  in order,
 *   0      o_parts   [S, B, H, N, value_dim]  parts_dtype  read
 *   1      lse_parts [S, B, H, N]             f32          read, in units of the natural logarithm
 *   then   sinks     [H]                      f32          read; with `sinks` only
 *   then   o         [B, H, N, value_dim]     dtype        written
 *   then   lse       [B, H, N]                f32          written
 *  A part with lse = -inf is ignored, whatever its o contains. If all parts of a row are ignored, o is 0, and lse is
 *  -inf or, with `sinks`, the head's sink. Equal arguments give equal bits. */
typedef struct FlashcMergeStates {
  /** FLASHC_BF16, FLASHC_F16 or FLASHC_F32, each. */
  FlashcDType parts_dtype, dtype;
  /** Positive. The kernel is fastest if value_dim elements are a multiple of 16 bytes. */
  int64_t value_dim;
  /** Adds a part without an output, whose log-sum-exp is the head's sink. */
  bool sinks;
} FlashcMergeStates;

/** The same as flashcAttentionGetText and flashcCompileAttention. A GPU kernel of this kind has no schedule. */
FLASHC_EXPORTED FlashcStatus flashcMergeStatesGetText(FlashcContext context, const FlashcMergeStates *merge, char **out,
                                                      char **message);
FLASHC_EXPORTED FlashcStatus flashcCompileMergeStates(FlashcContext context, const FlashcMergeStates *merge,
                                                      const FlashcCompileOptions *options, FlashcKernel *out,
                                                      char **message);

/** Writes new tokens to a cache of keys and values, in place (docs/append-kv.md). The kernel's arguments are, in
 *  order,
 *   0      k         [B, T, Hk, head_dim]            dtype         read
 *   1      v         [B, T, Hk, value_dim]           dtype         read
 *   2      positions [B]                             i32           read: token t goes to positions[b] + t
 *   then   offsets   [B + 1]                         i32           read; with `offsets` only: k is [total, Hk,
 *                                                                  head_dim] and v [total, Hk, value_dim], and token t
 *                                                                  of sequence b is row offsets[b] + t
 *   then   counts    [B]                             i32           read; with `counts` only: the number of tokens
 *   then   table     [B, M]                          i32           read; with `paged` only
 *   then   leftpad   [B]                             i32           read; with `leftpad` only
 *   then   cos, sin  [max position, rotary_dim / 2]  rotary_dtype  read; with `rotary_dim` only
 *   then   k_scale   [P, H]                          f32           read; with a `cache_type` of 8 bits only: P is the
 *   then   v_scale   [P, H]                          f32           number of pages with `page_scales` and else 1,
 *                                                                  H is Hk with `head_scales` and else 1
 *   then   k_cache   [pages, page, Hk, head_dim], or [B, N, Hk, head_dim]    of `cache_type`  written in part
 *   then   v_cache   [pages, page, Hk, value_dim], or [B, N, Hk, value_dim]  of `cache_type`  written in part
 *  A token whose position is outside of the cache, the table, or cos is not written. */
typedef struct FlashcAppendKV {
  /** FLASHC_BF16, FLASHC_F16 or FLASHC_F32. */
  FlashcDType dtype;
  /** Positive. The kernel is fastest if head_dim elements, and value_dim elements, are a multiple of 16 bytes. */
  int64_t head_dim, value_dim;
  /** Whether the cache consists of pages, which a table gives to sequences. */
  bool paged;
  /** Whether each sequence has its own number of new tokens. */
  bool counts;
  /** How many columns of a key are rotated, from the first on. Even, and at most head_dim; 0 means no rotation. */
  int64_t rotary_dim;
  /** FLASHC_F32, or dtype. */
  FlashcDType rotary_dtype;
  /** Whether columns 2 c and 2 c + 1 are a pair (GPT-J); otherwise c and c + rotary_dim / 2 are (Llama, GPT-NeoX). */
  bool interleaved;
  /** Whether sequence b begins at row leftpad[b] of its cache: a key at row p is rotated by row p - leftpad[b] of
   *  cos. */
  bool leftpad;
  /** The elements of the caches. A number becomes an 8-bit element by division by the scale of its page and key head,
   *  rounding to nearest, and saturation. */
  FlashcCacheType cache_type;
  bool page_scales, head_scales;
  /** Whether the new tokens of all sequences are packed; then not together with `counts`. */
  bool offsets;
} FlashcAppendKV;

FLASHC_EXPORTED FlashcStatus flashcAppendKVGetText(FlashcContext context, const FlashcAppendKV *append, char **out,
                                                   char **message);
FLASHC_EXPORTED FlashcStatus flashcCompileAppendKV(FlashcContext context, const FlashcAppendKV *append,
                                                   const FlashcCompileOptions *options, FlashcKernel *out,
                                                   char **message);

#ifdef __cplusplus
}
#endif

#endif /* FLASHC_C_PLAIN_H */
