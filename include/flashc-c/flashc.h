/*===- flashc.h - flashc for C ------------------------------------------------------------------------------------===*\
|*
|* Compiles attention to a GPU kernel and launches it. The library is libflashc.so; it exports the functions below and
|* nothing else, so it can live in a process that holds another LLVM.
|*
|* Ownership. Whatever a function hands out through an `out` pointer belongs to the caller, who gives it back with the
|* destroy function of its type; text that a function returns as `const char *` belongs to the handle it was asked of.
|* Destroying a handle whose `ptr` is null does nothing. Text ends with a zero byte.
|*
|* Errors. A function that can fail returns a status. If it is not FLASHC_OK and `message` is not null, `*message` is
|* why: the compiler's diagnostics, one a line, or the CUDA driver's words; the caller frees it by flashcStringDestroy.
|* On success `*message` is null. On failure nothing is handed out: the handle's `ptr` is null.
|*
|* Memory. No C++ exception leaves a function: where there is no memory, it returns FLASHC_OUT_OF_MEMORY, or what stands
|* for failure if it has no status. What it had made is given back, except for what LLVM held at that moment, and
handles
|* stay as good as they were: the same call may succeed later. That is tested for every allocation of a page or more. Of
|* smaller ones MLIR takes some for granted: a process that has not a page left may still end. So may one whose memory
|* runs out in its first compilation, where LLVM sets itself up, or while a kernel runs on the CPU.
|*
|* Threads. Every function may be called from any thread at any time, also with the same handles. Threads that ask a
|* context for the same kernel, or launch the same entry of it, at once compile it once. Only destroying a handle must
|* not overlap with its use.
|*
\*===--------------------------------------------------------------------------------------------------------------===*/
#ifndef FLASHC_C_FLASHC_H
#define FLASHC_C_FLASHC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define FLASHC_EXPORTED __attribute__((visibility("default")))
#else
#define FLASHC_EXPORTED
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum FlashcStatus {
  FLASHC_OK = 0,
  /** An argument that no input could make right: a null pointer, an enumerator that does not exist. */
  FLASHC_INVALID_ARGUMENT = 1,
  /** The program is wrong, or flashc has no kernel for it. */
  FLASHC_COMPILE_ERROR = 2,
  /** There is no CUDA driver, or it is too old. */
  FLASHC_NO_DRIVER = 3,
  /** The GPU does not take the kernel, or the driver failed. */
  FLASHC_GPU_ERROR = 4,
  /** The arguments of a launch do not suit the kernel: number, rank, extents, strides, addresses or alignment; on the
   *  CPU also what arrays hold, such as an index outside of an array that it is for. */
  FLASHC_ARGUMENT_MISMATCH = 5,
  /** The system did not give the memory that the call needs, or a thread or lock. Then `message` may be null. */
  FLASHC_OUT_OF_MEMORY = 6
} FlashcStatus;

/** What compilations share: the dialects and passes that flashc knows, the kernels that were compiled and loaded, and
 *  the cache on disk. */
typedef struct FlashcContext {
  void *ptr;
} FlashcContext;

/** A compiled attention: PTX and how to launch it. It outlives its context if need be. Of a kernel with variants
 *  (docs/manifest.md) an entry becomes PTX when it is first needed: by a launch, or by who reads the PTX. */
typedef struct FlashcKernel {
  void *ptr;
} FlashcKernel;

/** A kernel in the memory of one GPU, or machine code for the CPU. It outlives its FlashcKernel if need be. */
typedef struct FlashcLoadedKernel {
  void *ptr;
} FlashcLoadedKernel;

/*===--------------------------------------------------------------------------------------------------------------===*\
|* The library
\*===--------------------------------------------------------------------------------------------------------------===*/

/** The version, such as "0.1.0". It belongs to the library. */
FLASHC_EXPORTED const char *flashcGetVersion(void);

/** Frees a text that belongs to the caller. Takes null. */
FLASHC_EXPORTED void flashcStringDestroy(char *text);

/** Runs the flashc program in this process: its command line, its output, its exit status. */
FLASHC_EXPORTED int flashcMain(int argc, char **argv);

/** Where a context keeps kernels between processes. Zero stands for the defaults. */
typedef struct FlashcContextOptions {
  /** Nothing is read from or written to disk. */
  bool disable_disk_cache;
  /** The folder, made when it is first needed; null: $XDG_CACHE_HOME/flashc, or $HOME/.cache/flashc. */
  const char *cache_directory;
  /** The folder's bound in bytes; the entries that were not used for longest go first. 0: 256 MiB. */
  uint64_t cache_bytes;
} FlashcContextOptions;

/** Makes a context, which the caller owns. `options` may be null; they are read during the call only. A folder that
 *  cannot be written or read costs time and nothing else. Null without the memory. */
FLASHC_EXPORTED FlashcContext flashcContextCreate(const FlashcContextOptions *options);
FLASHC_EXPORTED void flashcContextDestroy(FlashcContext context);

/** The folder where the context keeps kernels, or would if it kept them on disk; empty if there is none. It belongs to
 *  the context. Of a null context it is null. */
FLASHC_EXPORTED const char *flashcContextGetCacheDirectory(FlashcContext context);

/** What a context has done so far. */
typedef struct FlashcStatistics {
  /** Programs that went through the compiler, however many of their entries did. */
  uint64_t compilations;
  /** Requests for a kernel that this context had already, or that another thread was compiling. */
  uint64_t memory_hits;
  /** Kernels that came from disk instead of the compiler; so do their entries, if somebody needed them before. */
  uint64_t disk_hits;
  /** Files of the cache that were damaged; they are removed, and never executed. */
  uint64_t disk_rejected;
  /** Files that could not be written. */
  uint64_t disk_write_failures;
  /** Kernels loaded on a GPU. */
  uint64_t loads;
} FlashcStatistics;

FLASHC_EXPORTED FlashcStatistics flashcContextGetStatistics(FlashcContext context);

/** The number of GPUs. FLASHC_NO_DRIVER if there is no CUDA driver. */
FLASHC_EXPORTED FlashcStatus flashcGetDeviceCount(int *out, char **message);

/** The name of a GPU (0 is the first), such as "NVIDIA H200". The caller owns `*out` and frees it with
 *  flashcStringDestroy. FLASHC_NO_DRIVER if there is no CUDA driver. */
FLASHC_EXPORTED FlashcStatus flashcGetDeviceName(int device, char **out, char **message);

/*===--------------------------------------------------------------------------------------------------------------===*\
|* Compiling
\*===--------------------------------------------------------------------------------------------------------------===*/

/** How to compile. Null texts stand for the defaults; they are read during the call only. */
typedef struct FlashcCompileOptions {
  /** GPU architecture, or "cpu" for this machine's processor; null: "sm_90a". */
  const char *target;
  /** Overrides of the schedule table, such as "kv-tile=64,stages=2"; null: none. */
  const char *schedule;
  /** The function to compile; null: the module's only one. */
  const char *function;
  /** Text of a table of schedules (docs/schedules.md) that is looked at before the built-in one; null: none. */
  const char *schedule_table;
} FlashcCompileOptions;

/** The kernel of one attention of a module in MLIR's text form, `length` bytes at `text`: from memory, from disk, or
 *  compiled, as far as its manifest is known; without variants, to PTX. `options` may be null. The caller owns `*out`.
 */
FLASHC_EXPORTED FlashcStatus flashcCompileText(FlashcContext context, const char *text, size_t length,
                                               const FlashcCompileOptions *options, FlashcKernel *out, char **message);

typedef enum FlashcDType {
  FLASHC_BF16 = 0,
  FLASHC_F16 = 1,
  FLASHC_F32 = 2,
  /** One byte, 0 or 1. */
  FLASHC_I1 = 3,
  FLASHC_I8 = 4,
  FLASHC_I32 = 5,
  FLASHC_I64 = 6,
  /** Of q, k and v, and of captures. */
  FLASHC_F64 = 7
} FlashcDType;

typedef enum FlashcMask {
  /** Every query sees every key. */
  FLASHC_MASK_NONE = 0,
  /** Query i sees key j when j <= i + Nk - Nq: the last query is aligned with the last key. */
  FLASHC_MASK_CAUSAL = 1,
  /** Query i sees key j when i + Nk - Nq - window_left <= j <= i + Nk - Nq + window_right. */
  FLASHC_MASK_WINDOW = 2
} FlashcMask;

typedef enum FlashcOperation {
  /** O = softmax(S) V. */
  FLASHC_ATTENTION = 0,
  /** The weight that each key receives, c_j = sum over i of exp(S_ij - lse_i), for each query head. */
  FLASHC_COLUMN_SUMS = 1,
  /** The same, added up over the query heads of each key head. */
  FLASHC_GROUP_COLUMN_SUMS = 2,
  /** What O passes back to q, k and v, and its log-sum-exp too, unless that is left out. */
  FLASHC_ATTENTION_BACKWARD = 3,
  /** What O passes back to one of the captures, which the score reads. */
  FLASHC_CAPTURED_GRADIENT = 4
} FlashcOperation;

/** Elements of a cache of keys and values. */
typedef enum FlashcCacheType {
  /** The dtype of the attention. */
  FLASHC_CACHE_DTYPE = 0,
  /** OCP float8 e4m3: bias 7, no infinities. */
  FLASHC_CACHE_E4M3 = 1,
  FLASHC_CACHE_INT8 = 2
} FlashcCacheType;

/** An extent that is known at launch only. */
#define FLASHC_ANY 0

/** An array or a scalar that the code of a mask or a score reads. */
typedef struct FlashcCapture {
  /** A letter, then letters, digits and underscores; the code calls it `%name`. */
  const char *name;
  FlashcDType dtype;
  /** Number of extents; 0 for a scalar. */
  size_t rank;
  /** Each positive or FLASHC_ANY. */
  const int64_t *extents;
} FlashcCapture;

/** An attention O = softmax(score(scale * Q K^T) where mask) V with its log-sum-exp, unless that is left out. The
 *  kernel's arguments are, in order,
 *    0      q    [B, Hq, Nq, head_dim]   dtype   read
 *    1      k    [B, Hk, Nk, head_dim]   dtype   read
 *    2      v    [B, Hk, Nk, value_dim]  dtype   read
 *    then   sinks [Hq]                   f32     read; with `sinks` only
 *    then   philox [2]                   i64     read; with `dropout_p` only: a seed and an offset
 *    then   the captures                         read
 *    then   o    [B, Hq, Nq, value_dim]  dtype   written
 *    then   lse  [B, Hq, Nq]             f32     written, in units of the natural logarithm; not with omit_lse
 *  A row that sees no key has o = 0 and lse = -inf, or its head's sink.
 *
 *  Of attention with `cache` the keys and values of sequence b are the first lengths[b] rows (from 0 to Nk) of k[b] and
 *  v[b], or with `page_size` of the pages that the table names in order:
 *    1      k    [B, Hk, Nk, head_dim], or [pages, Hk, page_size, head_dim]
 *    2      v    [B, Hk, Nk, value_dim], or [pages, Hk, page_size, value_dim]
 *    3      lengths [B]                  i32     read
 *    then   table [B, M]                 i32     read; with `page_size` only: numbers of pages, Nk = M * page_size
 *    then   k_scale [P, H]               f32     read; with a `cache_type` of 8 bits only, in which k and v are then;
 *    then   v_scale [P, H]               f32     P is 1, or with `page_scales` the pages, H 1, or with `head_scales` Hk
 *    then   sinks, captures, o, lse as above
 *  Positions are those in the sequence: in the code of a mask or score, and for `mask`, query n of Nq is %i =
 *  lengths[b] - Nq + n. Keys from lengths[b] on are not seen, whatever the mask says.
 *
 *  Of column sums there is no v and no value_dim; lse, of the same attention, is read in the place of v, and the only
 *  output is c [B, Hq, Nk], or [B, Hk, Nk] for groups, in f32.
 *
 *  The backward pass reads what attention has read and written, and the gradients of what it has written:
 *    0      q     [B, Hq, Nq, head_dim]   dtype   read
 *    1      k     [B, Hk, Nk, head_dim]   dtype   read
 *    2      v     [B, Hk, Nk, value_dim]  dtype   read
 *    3      o     [B, Hq, Nq, value_dim]  dtype   read
 *    4      lse   [B, Hq, Nq]             f32     read
 *    5      do    [B, Hq, Nq, value_dim]  dtype   read
 *    6      dlse  [B, Hq, Nq]             f32     read; not with omit_lse, which stands for zeros
 *    then   sinks [Hq]                    f32     read; with `sinks` only
 *    then   philox [2]                    i64     read; with `dropout_p` only: those of the forward pass
 *    then   the captures                          read
 *    then   dq    [B, Hq, Nq, head_dim]   dtype   written
 *    then   dk    [B, Hk, Nk, head_dim]   dtype   written
 *    then   dv    [B, Hk, Nk, value_dim]  dtype   written
 *    then   dsinks [Hq]                   f32     written; with `sinks` only
 *  A row that sees no key, which lse = -inf says, has dq = 0 and adds nothing to dk and dv. Of
 *  a score without a derivative (docs/backward.md) the kernel can be compiled, but not loaded.
 *
 *  The gradient of a capture reads what the backward pass reads, but no sinks, which the log-sum-exp has, and writes
 * one array of the capture's extents in f32. Equal arguments give equal bits. Which captures have a gradient says
 *  docs/captured-gradients.md; for others there is no kernel (FLASHC_COMPILE_ERROR). */
typedef struct FlashcAttention {
  /** FLASHC_BF16 or FLASHC_F16; on the CPU also FLASHC_F32, and FLASHC_F64 for checks of gradients by differences: then
   *  every float but scale is f64, lse and captures too, and the matrix of scores is in memory. */
  FlashcDType dtype;
  /** Multiples of 8, from 8 to 256. */
  int64_t head_dim, value_dim;
  /** Hq / Hk: query head h reads key head h / group_size. */
  int64_t group_size;
  /** Often 1 / sqrt(head_dim). */
  float scale;
  FlashcMask mask;
  /** For FLASHC_MASK_WINDOW; negative: no bound on that side. */
  int64_t window_left, window_right;
  /** Code that further restricts the mask, or null: operations of `arith`, `math`, `tensor` and `flash` in MLIR's text
   *  form on %b, %h, %i, %j (index: batch, query head, query, key), the captures, %flashc.nq and %flashc.nk (index: Nq
   *  and Nk; in a cache Nk is the length of the sequence) and %flashc.shift (index: Nk - Nq, which brings the last
   *  query's position to the last key; 0 in a cache, where %i is there), ending with `flash.yield %keep : i1`. */
  const char *mask_code;
  /** Code that replaces the scaled score, or null: likewise, on %s (f32) too, ending with `flash.yield %t : f32`. */
  const char *score_code;
  const FlashcCapture *captures;
  size_t num_captures;
  /** B, Hk, Nq, Nk: positive, and then the kernel serves no other; or FLASHC_ANY. */
  int64_t batch, key_heads, queries, keys;
  /** Leaves lse out: nothing computes it, and the kernel has no argument for it. Of the backward pass: leaves dlse out.
   */
  bool omit_lse;
  /** What is computed. */
  FlashcOperation operation;
  /** Of the backward pass: takes every sum in one order, so that equal arguments give equal bits in every run.
   * Otherwise dq may be added up in any order, which is faster. No other operation depends on it. */
  bool deterministic;
  /** Of attention and the backward pass: every softmax has one column more, whose score is the head's sink (natural
   *  logarithm) and which has no value. The log-sum-exp includes it. */
  bool sinks;
  /** Of attention and the backward pass: the rate with which a probability is 0 before the product with v, rounded to a
   *  multiple of 1/256; others are divided by 1 - rate. 0: no dropout. The log-sum-exp does not know of it. */
  float dropout_p;
  /** Of the gradient of a capture: its number among `captures`, one of bf16, f16, f32 or f64 that is no scalar. */
  size_t captured;
  /** Of attention: k and v are caches, which hold sequences of different lengths, and q are the last Nq positions of
   * each. Up to 64 rows of queries for a key head, group_size * queries, the kernel is one for decoding, with a
   * schedule of its own; for more, or FLASHC_ANY queries, it is the forward one (docs/decode.md). A field in
   *  FlashcCompileOptions::schedule that only one of them has chooses that. */
  bool cache;
  /** Rows of a page, where a cache lies in pages; 0: sequence b is k[b] and v[b]. */
  int64_t page_size;
  /** Elements of k and v in a cache. Of 8 bits each stands for what it is times the scale of its page and key head, in
   * f32; head dimensions are multiples of 16, and pages that have scales multiples of 16 rows. */
  FlashcCacheType cache_type;
  bool page_scales, head_scales;
  /** Fields by their names, as text, or null: names with commas between, and values after `=`, such as
   *  "sinks,dropout_p=0.25". The names are `sinks`, `deterministic` and `dropout_p`, of the fields above; options of
   * later versions have names alone. An unknown name is refused. */
  const char *options;
} FlashcAttention;

/** The attention as a module in MLIR's text form, for flashcCompileText or the flashc program. The caller owns `*out`
 *  and frees it with flashcStringDestroy. */
FLASHC_EXPORTED FlashcStatus flashcAttentionGetText(FlashcContext context, const FlashcAttention *attention, char **out,
                                                    char **message);

/** The kernel of the attention: from memory, from disk, or compiled. `options` may be null. The caller owns `*out`. */
FLASHC_EXPORTED FlashcStatus flashcCompileAttention(FlashcContext context, const FlashcAttention *attention,
                                                    const FlashcCompileOptions *options, FlashcKernel *out,
                                                    char **message);

/** The kernels that read caches (docs/decode.md). */
typedef enum FlashcKernelKind {
  /** One kernel for any number of queries: the attention is compiled with `queries` FLASHC_ANY. */
  FLASHC_FORWARD_KERNEL = 0,
  /** A kernel for this number of queries, of which it takes 16 rows of a key head at a time. */
  FLASHC_DECODE_KERNEL = 1
} FlashcKernelKind;

/** A launch of an attention that reads a cache. */
typedef struct FlashcCacheLaunch {
  /** Multiprocessors of the GPU; positive. */
  int64_t multiprocessors;
  /** Parts of each sequence's keys, which run in parallel and are merged; 0: as many as pay. */
  int64_t splits;
  /** A row's bits depend on its own sequence and on the number of queries alone; splits is 0 then. */
  bool batch_invariant;
} FlashcCacheLaunch;

/** The kernel that a launch is best compiled as, and its schedule, as FlashcCompileOptions::schedule takes it. It goes
 * by the attention's batch, key_heads, queries and keys (of the longest sequence), all of them positive, and by
 * `options` (may be null): its target, table, and schedule, of which fields that only one kind of kernel has choose the
 * kind. The caller owns `*schedule` and frees it with flashcStringDestroy. */
FLASHC_EXPORTED FlashcStatus flashcAttentionChooseKernel(const FlashcAttention *attention,
                                                         const FlashcCacheLaunch *launch,
                                                         const FlashcCompileOptions *options, FlashcKernelKind *kind,
                                                         char **schedule, char **message);

/** A merge of partial results of attention, over S parts of the keys, into one (docs/merge-states.md). The kernel's
 *  arguments are, in order,
 *    0      o_parts   [S, B, H, N, value_dim]  parts_dtype  read
 *    1      lse_parts [S, B, H, N]             f32          read, in units of the natural logarithm
 *    then   sinks     [H]                      f32          read; with `sinks` only
 *    then   o         [B, H, N, value_dim]     dtype        written
 *    then   lse       [B, H, N]                f32          written
 *  A part of lse = -inf gives nothing, whatever its o holds. Where there is no other, o = 0 and lse = -inf, or the
 * head's sink. Equal arguments give equal bits. */
typedef struct FlashcMergeStates {
  /** FLASHC_BF16, FLASHC_F16 or FLASHC_F32, each. */
  FlashcDType parts_dtype, dtype;
  /** Positive. A multiple of 16 bytes makes the fastest kernel. */
  int64_t value_dim;
  /** One part more, without an output, whose log-sum-exp is the head's sink. */
  bool sinks;
} FlashcMergeStates;

/** As flashcAttentionGetText and flashcCompileAttention. A kernel for a GPU has no schedule. */
FLASHC_EXPORTED FlashcStatus flashcMergeStatesGetText(FlashcContext context, const FlashcMergeStates *merge, char **out,
                                                      char **message);
FLASHC_EXPORTED FlashcStatus flashcCompileMergeStates(FlashcContext context, const FlashcMergeStates *merge,
                                                      const FlashcCompileOptions *options, FlashcKernel *out,
                                                      char **message);

/** New tokens into a cache of keys and values, in place (docs/append-kv.md). The kernel's arguments are, in order,
 *    0      k         [B, T, Hk, head_dim]             dtype         read
 *    1      v         [B, T, Hk, value_dim]            dtype         read
 *    2      positions [B]                              i32           read: where token 0 goes, and token t to t beyond
 * it then   counts    [B]                              i32           read; with `counts` only: tokens that there are
 *    then   table     [B, M]                           i32           read; with `paged` only
 *    then   leftpad   [B]                              i32           read; with `leftpad` only
 *    then   cos, sin  [max position, rotary_dim / 2]   rotary_dtype  read; with `rotary_dim` only
 *    then   k_scale   [P, H]                           f32           read; with a `cache_type` of 8 bits only;
 *    then   v_scale   [P, H]                           f32           P is 1, or with `page_scales` the pages, H 1, or
 * with `head_scales` Hk then   k_cache   [pages, page, Hk, head_dim], or [B, N, Hk, head_dim]    dtype, or of
 * `cache_type`  written in part then   v_cache   [pages, page, Hk, value_dim], or [B, N, Hk, value_dim]  that of
 * k_cache            written in part A token whose position the cache, the table, or cos does not have is not written,
 * and no element beside. */
typedef struct FlashcAppendKV {
  /** FLASHC_BF16, FLASHC_F16 or FLASHC_F32. */
  FlashcDType dtype;
  /** Positive. Multiples of 16 bytes make the fastest kernel. */
  int64_t head_dim, value_dim;
  /** The cache is pages, which a table gives to sequences. */
  bool paged;
  /** Sequences have their own number of new tokens. */
  bool counts;
  /** The first columns of a key, which are rotated: even, at most head_dim; 0: none. */
  int64_t rotary_dim;
  /** FLASHC_F32, or dtype. */
  FlashcDType rotary_dtype;
  /** Columns 2 c and 2 c + 1 are a pair (GPT-J); otherwise c and c + rotary_dim / 2 (Llama, GPT-NeoX). */
  bool interleaved;
  /** The sequence b begins at row leftpad[b] of its cache: a key at row p is rotated by row p - leftpad[b] of cos. */
  bool leftpad;
  /** Elements of the caches. Of 8 bits each is the number over the scale of its page and key head, rounded to the
   * nearest and saturated. */
  FlashcCacheType cache_type;
  bool page_scales, head_scales;
} FlashcAppendKV;

FLASHC_EXPORTED FlashcStatus flashcAppendKVGetText(FlashcContext context, const FlashcAppendKV *append, char **out,
                                                   char **message);
FLASHC_EXPORTED FlashcStatus flashcCompileAppendKV(FlashcContext context, const FlashcAppendKV *append,
                                                   const FlashcCompileOptions *options, FlashcKernel *out,
                                                   char **message);

/** The kernel's PTX with all entries, its manifest (JSON; docs/manifest.md), its schedule (in the form of
 *  FlashcCompileOptions::schedule; of several variants that for any number of queries), and what was chosen for every
 *  entry and why, for people (docs/schedules.md). They belong to the kernel. For the CPU all but the manifest are
 * empty. Of a null kernel they are null. The PTX compiles the entries that no launch has needed yet; it is null without
 * the memory. */
FLASHC_EXPORTED const char *flashcKernelGetPTX(FlashcKernel kernel);
FLASHC_EXPORTED const char *flashcKernelGetManifest(FlashcKernel kernel);
FLASHC_EXPORTED const char *flashcKernelGetSchedule(FlashcKernel kernel);
FLASHC_EXPORTED const char *flashcKernelGetDecisions(FlashcKernel kernel);

/** The program at a level: "flash", "loops", and for a GPU "tile", "nvvm", "llvm". The caller owns `*out` and frees it
 *  with flashcStringDestroy. */
FLASHC_EXPORTED FlashcStatus flashcKernelGetIR(FlashcKernel kernel, const char *level, char **out, char **message);

typedef struct FlashcArgument FlashcArgument;

/** Totals over one call, counted from the loops: tiles that a mask rules out cost nothing. They are whole numbers,
 * exact up to 2^53 and the nearest double beyond: a head of 2^31 queries and keys takes 2^70 FLOPs. */
typedef struct FlashcCost {
  /** Of the two products, and of everything else; one per addition, multiplication or function. */
  double matmul_flops, other_flops;
  /** Between the device's memory and the chip. */
  double bytes_read, bytes_written;
} FlashcCost;

/** The cost of a call with these arguments, of which the extents alone are read. Where a mask bounds the keys of each
 *  tile of queries, each is counted by itself, and more than 2^17 of them are an error. */
FLASHC_EXPORTED FlashcStatus flashcKernelGetCost(FlashcKernel kernel, const FlashcArgument *arguments, size_t count,
                                                 FlashcCost *out, char **message);

FLASHC_EXPORTED void flashcKernelDestroy(FlashcKernel kernel);

/*===--------------------------------------------------------------------------------------------------------------===*\
|* Explaining a mask
\*===--------------------------------------------------------------------------------------------------------------===*/

/** What a mask does to the tiles of one call: text, and which tiles a kernel visits. */
typedef struct FlashcExplanation {
  void *ptr;
} FlashcExplanation;

/** Explains the one attention of a module in MLIR's text form, `length` bytes at `text`, called with these arguments:
 *  as for a launch, but addresses are in the memory of this process, and 0 stands for elements that are not at hand.
 *  Only what loop bounds read must be there (lengths, document ids); a message names it. Nothing is computed, and no
 *  GPU is needed. Tiles are those of the kernel that a launch with these extents takes; for the target "cpu", and for
 *  f32, those of the loops there. `options` may be null. The caller owns `*out`. */
FLASHC_EXPORTED FlashcStatus flashcExplainText(FlashcContext context, const char *text, size_t length,
                                               const FlashcCompileOptions *options, const FlashcArgument *arguments,
                                               size_t count, FlashcExplanation *out, char **message);

/** The same for an attention by its description. */
FLASHC_EXPORTED FlashcStatus flashcExplainAttention(FlashcContext context, const FlashcAttention *attention,
                                                    const FlashcCompileOptions *options,
                                                    const FlashcArgument *arguments, size_t count,
                                                    FlashcExplanation *out, char **message);

/** The explanation for people (docs/explain.md), and as a JSON object with the keys function, mask_class ("exact",
 *  "mapped", "conservative" or "opaque"), reasons, formulas and bounds (lists of text), tile ([queries, keys]),
 * tile_source, batch, heads, queries, keys (extents), rows and columns (tiles of one head: a row for each tile of
 * queries, or, where queries come past keys, as streams_queries says, of keys), varies_by_batch and varies_by_head
 * (whether batches, heads may differ), counted_rows, and counts (skipped, partial and full tiles of all heads, which
 * may exceed 64 bits). Where there are more rows than explain runs, counted_rows is less than rows, and the counts are
 * estimates from so many evenly spaced rows of each head. The texts belong to the explanation. Of a null explanation
 * they are null. */
FLASHC_EXPORTED const char *flashcExplanationGetText(FlashcExplanation explanation);
FLASHC_EXPORTED const char *flashcExplanationGetJSON(FlashcExplanation explanation);

/** The tiles of one query head, row by row (tiles of queries), rows * columns bytes: 0 skipped, 1 visited with the
 *  mask, 2 visited without. They belong to the explanation, which lists them when it is first asked. Null if there is
 * no such head, no explanation, not the memory, or if the counts are estimates. */
FLASHC_EXPORTED const uint8_t *flashcExplanationGetTiles(FlashcExplanation explanation, int64_t batch, int64_t head);

FLASHC_EXPORTED void flashcExplanationDestroy(FlashcExplanation explanation);

/*===--------------------------------------------------------------------------------------------------------------===*\
|* Launching
\*===--------------------------------------------------------------------------------------------------------------===*/

/** An argument of a launch: an array in the memory of the GPU (of the host for the CPU), or a scalar. Its extents and
 *  strides are read during the call only. */
struct FlashcArgument {
  /** Address of the first element; 0 for a scalar, and only there or where an extent is 0. */
  uint64_t address;
  /** Number of extents and of strides; 0 for a scalar. */
  size_t rank;
  const int64_t *extents;
  /** In elements; the last is 1. */
  const int64_t *strides;
  /** A scalar's bytes in its own type, lowest first. */
  uint64_t scalar;
};

/** In the place of a GPU's number: this machine's processor, for a kernel whose target is "cpu". */
#define FLASHC_DEVICE_CPU (-1)

/** Loads the kernel on a GPU (0 is the first), into its primary context: that of the CUDA runtime and of PyTorch. The
 *  calling thread's current CUDA context stays what it was. A kernel that this context has loaded there before is not
 *  loaded again. Of a kernel with variants (docs/manifest.md) an entry is compiled, and assembled by the driver, at the
 *  first launch that takes it; flashcLoadedKernelLoadAll does so at once. The caller owns `*out`. */
FLASHC_EXPORTED FlashcStatus flashcKernelLoad(FlashcKernel kernel, int device, FlashcLoadedKernel *out, char **message);

/** Starts the kernel on `stream`, a CUstream or cudaStream_t of the same GPU (null: the default stream), and returns
 *  before it ends. The arguments are those of the manifest, in order; number, ranks, extents (those that must agree
 *  too), strides and alignment are checked; sizes of the memory behind the addresses cannot be. Without queries or a
 *  batch there is nothing to do; queries without keys are refused on a GPU (o = 0 and lse = -inf are the caller's to
 *  write). The first launch of an entry compiles and loads it, also while the stream is captured; what does not
 *  compile is FLASHC_COMPILE_ERROR, what does not load FLASHC_GPU_ERROR, and the next launch of it tries again. On the
 *  CPU there is no stream, and the call returns when the results are there. */
FLASHC_EXPORTED FlashcStatus flashcLoadedKernelLaunch(FlashcLoadedKernel kernel, const FlashcArgument *arguments,
                                                      size_t count, void *stream, char **message);

/** The same with a plan: a number other than 0 by which the caller says that what a mask reads has not changed since
 *  other launches with it. On a GPU the kernels that run the mask on tiles, whose result the kernel keeps, are then
 * left out; those of masks that read no array are without a plan, too. What is kept is bounded (docs/manifest.md). */
FLASHC_EXPORTED FlashcStatus flashcLoadedKernelLaunchPlanned(FlashcLoadedKernel kernel, const FlashcArgument *arguments,
                                                             size_t count, uint64_t plan, void *stream, char **message);

/** Frees what launches with this plan have kept. They have ended, and so have graphs that captured them. */
FLASHC_EXPORTED FlashcStatus flashcLoadedKernelForgetPlan(FlashcLoadedKernel kernel, uint64_t plan, char **message);

/** What a kernel keeps of masks on its GPU; all 0 on the CPU. */
typedef struct FlashcMaskMaps {
  /** Maps that are kept, and their bytes. */
  uint64_t maps, bytes;
  /** Launches that found theirs, and launches that had to run their mask. */
  uint64_t hits, misses;
} FlashcMaskMaps;

FLASHC_EXPORTED FlashcMaskMaps flashcLoadedKernelGetMaskMaps(FlashcLoadedKernel kernel);

/** Compiles and loads every entry of the kernel that no launch has needed yet, for callers that want no later launch to
 *  wait a second for the compiler and the driver's assembler. On the CPU, and without variants, there is nothing to do.
 */
FLASHC_EXPORTED FlashcStatus flashcLoadedKernelLoadAll(FlashcLoadedKernel kernel, char **message);

/** Gives the kernel back. Its launches have ended. It stays loaded for as long as its context or a FlashcKernel is
 *  there. */
FLASHC_EXPORTED void flashcLoadedKernelDestroy(FlashcLoadedKernel kernel);

#ifdef __cplusplus
}
#endif

#endif /* FLASHC_C_FLASHC_H */
