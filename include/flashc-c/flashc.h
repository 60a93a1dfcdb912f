/*===- flashc.h - flashc for C ------------------------------------------------------------------------------------===*\
|*
|* Compiles attention to a GPU kernel and launches it. The library is libflashc.so; it exports the functions of the
|* three headers in this folder and nothing else, so it can live in a process that holds another LLVM.
|*
|* Ownership. An object that a function returns through an `out` pointer belongs to the caller, who destroys it with the
|* destroy function of its type; text that a function returns as `const char *` belongs to the handle that it was read
|* from. Destroying a handle whose `ptr` is null does nothing. Text ends with a zero byte.
|*
|* Errors. A function that can fail returns a status. If it is not FLASHC_OK and `message` is not null, `*message` is
|* the reason: the compiler's diagnostics, one per line, or the CUDA driver's message; the caller frees it with
|* flashcStringDestroy. On success `*message` is null. On failure nothing is returned: the handle's `ptr` is null.
|*
|* Memory. No C++ exception leaves a function: if memory runs out, it returns FLASHC_OUT_OF_MEMORY, or its failure value
|* if it has no status. Its partial results are freed, except for memory that LLVM held at that moment, and handles
|* remain valid: the same call may succeed later. Tests check this for every allocation of a page or more. MLIR assumes
|* that some smaller allocations succeed. So a process without a free page may still end. A process may also end if its
|* memory runs out in its first compilation, while LLVM initialises itself, or while a kernel runs on the CPU.
|*
|* Threads. Every function may be called from any thread at any time, also with the same handles. If several threads
|* request the same kernel of a context at the same time, or launch the same entry of a kernel, the kernel or the entry
|* is compiled only once. Only destroying a handle must not overlap with the use of the handle.
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
  /** An argument that is always wrong, such as a null pointer or an unknown enumerator. */
  FLASHC_INVALID_ARGUMENT = 1,
  /** The program is wrong, or flashc has no kernel for it. */
  FLASHC_COMPILE_ERROR = 2,
  /** There is no CUDA driver, or it is too old. */
  FLASHC_NO_DRIVER = 3,
  /** The GPU rejects the kernel, or the driver failed. */
  FLASHC_GPU_ERROR = 4,
  /** The arguments of a launch do not suit the kernel: number, rank, extents, strides, addresses or alignment; on
   *  the CPU also the contents of arrays, such as an index that is out of range. */
  FLASHC_ARGUMENT_MISMATCH = 5,
  /** The system did not provide memory, a thread or a lock. Then `message` may be null. */
  FLASHC_OUT_OF_MEMORY = 6
} FlashcStatus;

/** The state that compilations share: the dialects and passes of flashc, the kernels that were compiled and loaded,
 *  and the cache on disk. */
typedef struct FlashcContext {
  void *ptr;
} FlashcContext;

/** A compiled attention: PTX and its launch. It may outlive its context. If a kernel has variants
 *  (docs/manifest.md), an entry is compiled to PTX when a launch needs it or the PTX is read. */
typedef struct FlashcKernel {
  void *ptr;
} FlashcKernel;

/** A kernel in the memory of one GPU, or machine code for the CPU. It may outlive its FlashcKernel. */
typedef struct FlashcLoadedKernel {
  void *ptr;
} FlashcLoadedKernel;

/*===--------------------------------------------------------------------------------------------------------------===*\
|* The library
\*===--------------------------------------------------------------------------------------------------------------===*/

/** Returns the version, such as "0.1.0". The text belongs to the library. */
FLASHC_EXPORTED const char *flashcGetVersion(void);

/** Frees a text that belongs to the caller; null is allowed. */
FLASHC_EXPORTED void flashcStringDestroy(char *text);

/** Runs the flashc program in this process: takes its command line, prints its output, returns its exit status. */
FLASHC_EXPORTED int flashcMain(int argc, char **argv);

/** The cache of a context on disk. A field that is 0 stands for its default. */
typedef struct FlashcContextOptions {
  /** Whether the cache on disk is disabled: then nothing is read from disk or written to it. */
  bool disable_disk_cache;
  /** The folder, which is created when it is needed. Null stands for $XDG_CACHE_HOME/flashc, or $HOME/.cache/flashc. */
  const char *cache_directory;
  /** The maximum size of the folder in bytes; 0 stands for 256 MiB. The least recently used entries are removed
   *  first. */
  uint64_t cache_bytes;
} FlashcContextOptions;

/** Makes a context, which the caller owns. `options` may be null; they are read during the call only. If the folder
 *  cannot be read or written, the context works without it. Returns null if there is no memory. */
FLASHC_EXPORTED FlashcContext flashcContextCreate(const FlashcContextOptions *options);
FLASHC_EXPORTED void flashcContextDestroy(FlashcContext context);

/** Returns the folder of the context's disk cache, also if the cache is disabled. Returns an empty text if there is no
 *  folder, and null for a null context. The text belongs to the context. */
FLASHC_EXPORTED const char *flashcContextGetCacheDirectory(FlashcContext context);

/** Counts of a context's work so far. */
typedef struct FlashcStatistics {
  /** Programs that were compiled, each counted once. */
  uint64_t compilations;
  /** Requests for a kernel that this context already had, or that another thread was just compiling. */
  uint64_t memory_hits;
  /** Kernels that were read from disk instead of compiled. The entries of such a kernel that were compiled before are
   *  read with it. */
  uint64_t disk_hits;
  /** Files of the cache that were damaged; they are removed and never executed. */
  uint64_t disk_rejected;
  /** Files that could not be written. */
  uint64_t disk_write_failures;
  /** Kernels loaded on a GPU. */
  uint64_t loads;
} FlashcStatistics;

FLASHC_EXPORTED FlashcStatistics flashcContextGetStatistics(FlashcContext context);

/** Sets `*out` to the number of GPUs. FLASHC_NO_DRIVER if there is no CUDA driver. */
FLASHC_EXPORTED FlashcStatus flashcGetDeviceCount(int *out, char **message);

/** Sets `*out` to the name of a GPU (0 is the first), such as "NVIDIA H200". The caller frees it with
 *  flashcStringDestroy. FLASHC_NO_DRIVER if there is no CUDA driver. */
FLASHC_EXPORTED FlashcStatus flashcGetDeviceName(int device, char **out, char **message);

/*===--------------------------------------------------------------------------------------------------------------===*\
|* Compiling
\*===--------------------------------------------------------------------------------------------------------------===*/

/** Options of a compilation. A null text stands for its default. The texts are only read during the call. */
typedef struct FlashcCompileOptions {
  /** The GPU's architecture, or "cpu" for this machine's processor. Null stands for "sm_90a". */
  const char *target;
  /** Overrides of the schedule table, such as "kv-tile=64,stages=2". Null means none. */
  const char *schedule;
  /** The function to compile. Null stands for the only function of the module. */
  const char *function;
  /** The text of a table of schedules (docs/schedules.md), which is searched before the built-in table. Null means
   *  none. */
  const char *schedule_table;
} FlashcCompileOptions;

/** Compiles the one attention of a module in MLIR's text form, `length` bytes at `text`, or finds its kernel in
 *  memory or on disk. A kernel with variants is compiled only as far as its manifest needs; any other kernel is
 *  compiled to PTX. `options` may be null. The caller owns `*out`. */
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
  /** For q, k and v, and for captures. */
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
  /** The weight that each key receives: c_j = the sum over i of exp(S_ij - lse_i), for each query head. */
  FLASHC_COLUMN_SUMS = 1,
  /** The column sums, summed over the query heads of each key head. */
  FLASHC_GROUP_COLUMN_SUMS = 2,
  /** The gradients of q, k and v, from the gradient of O and, unless omit_lse is set, from that of the log-sum-exp. */
  FLASHC_ATTENTION_BACKWARD = 3,
  /** The gradient of one of the captures that the score reads. */
  FLASHC_CAPTURED_GRADIENT = 4
} FlashcOperation;

/** Elements of a cache of keys and values. */
typedef enum FlashcCacheType {
  /** The dtype of the attention, without scales. */
  FLASHC_CACHE_DTYPE = 0,
  /** OCP float8 e4m3: bias 7, no infinities. */
  FLASHC_CACHE_E4M3 = 1,
  FLASHC_CACHE_INT8 = 2
} FlashcCacheType;

/** An extent that is known at launch only. */
#define FLASHC_ANY 0

/** An array or a scalar that the code of a mask or a score reads. */
typedef struct FlashcCapture {
  /** A letter, then letters, digits and underscores. The code reads the capture as `%name`. */
  const char *name;
  FlashcDType dtype;
  /** Number of extents; 0 for a scalar. */
  size_t rank;
  /** Each positive or FLASHC_ANY. */
  const int64_t *extents;
} FlashcCapture;

/** An attention O = softmax(score(scale * Q K^T) where mask) V, and its log-sum-exp unless that is omitted. The
 *  kernel's arguments are, in order,
 *   0      q    [B, Hq, Nq, head_dim]   dtype   read
 *   1      k    [B, Hk, Nk, head_dim]   dtype   read
 *   2      v    [B, Hk, Nk, value_dim]  dtype   read
 *   then   sinks [Hq]                   f32     read; with `sinks` only
 *   then   philox [2]                   i64     read; with `dropout_p` only: a seed and an offset
 *   then   the captures                         read
 *   then   o    [B, Hq, Nq, value_dim]  dtype   written
 *   then   lse  [B, Hq, Nq]             f32     written, in units of the natural logarithm; not with omit_lse
 *  If a row sees no key, its o is 0, and its lse is -inf or, with `sinks`, its head's sink.
 *
 *  With `cache`, the keys and values of sequence b are the first lengths[b] rows (0 to Nk) of k[b] and v[b] or, with
 *  `page_size`, of the pages that the table names, in order. The arguments are then
 *   1      k    [B, Hk, Nk, head_dim], or [pages, Hk, page_size, head_dim]
 *   2      v    [B, Hk, Nk, value_dim], or [pages, Hk, page_size, value_dim]
 *   3      lengths [B]                  i32     read
 *   then   table [B, M]                 i32     read; with `page_size` only: numbers of pages, Nk = M * page_size
 *   then   k_scale [P, H]               f32     read; with a `cache_type` of 8 bits only: P is the number of pages
 *   then   v_scale [P, H]               f32     with `page_scales` and else 1, H is Hk with `head_scales` and else 1
 *   then   sinks, captures, o, lse as above
 *  Positions count from the begin of the sequence: in the code of a mask or score, and for `mask`, query n of Nq is
 *  %i = lengths[b] - Nq + n. Keys from lengths[b] on are never seen.
 *
 *  Column sums have no v and no value_dim. In place of v they read lse of the same attention. The only output is c
 *  [B, Hq, Nk], or [B, Hk, Nk] for groups, in f32.
 *
 *  The backward pass reads the inputs and outputs of attention, and the gradients of the outputs:
 *   0      q     [B, Hq, Nq, head_dim]   dtype   read
 *   1      k     [B, Hk, Nk, head_dim]   dtype   read
 *   2      v     [B, Hk, Nk, value_dim]  dtype   read
 *   3      o     [B, Hq, Nq, value_dim]  dtype   read
 *   4      lse   [B, Hq, Nq]             f32     read
 *   5      do    [B, Hq, Nq, value_dim]  dtype   read
 *   6      dlse  [B, Hq, Nq]             f32     read; with omit_lse there is no dlse, and it counts as 0
 *   then   sinks [Hq]                    f32     read; with `sinks` only
 *   then   philox [2]                    i64     read; with `dropout_p` only: as in the forward pass
 *   then   the captures                          read
 *   then   dq    [B, Hq, Nq, head_dim]   dtype   written
 *   then   dk    [B, Hk, Nk, head_dim]   dtype   written
 *   then   dv    [B, Hk, Nk, value_dim]  dtype   written
 *   then   dsinks [Hq]                   f32     written; with `sinks` only
 *  A row that sees no key (lse = -inf) has dq = 0 and adds nothing to dk and dv. If a score has no derivative
 *  (docs/backward.md), the kernel can be compiled but not loaded.
 *
 *  The gradient of a capture reads the arguments of the backward pass except for sinks, which the log-sum-exp
 *  includes, and writes one f32 array of the capture's extents. Equal arguments give equal bits.
 *  docs/captured-gradients.md says which captures have a gradient; others have no kernel (FLASHC_COMPILE_ERROR). */
typedef struct FlashcAttention {
  /** FLASHC_BF16 or FLASHC_F16; on the CPU also FLASHC_F32, and FLASHC_F64 for checks of gradients by differences:
   *  then every float except for scale is f64, also in lse and captures, and the matrix of scores is in memory. */
  FlashcDType dtype;
  /** Multiples of 8, from 8 to 256. */
  int64_t head_dim, value_dim;
  /** Hq / Hk: query head h reads key head h / group_size. */
  int64_t group_size;
  /** Often 1 / sqrt(head_dim). */
  float scale;
  FlashcMask mask;
  /** For FLASHC_MASK_WINDOW; a negative number means no bound on that side. */
  int64_t window_left, window_right;
  /** Code that further restricts the mask, or null: operations of `arith`, `math`, `tensor` and `flash` in MLIR's
   *  text form, ending with `flash.yield %keep : i1`. It may read %b, %h, %i, %j (index: batch, query head, query,
   *  key), the captures, %flashc.nq and %flashc.nk (index: Nq and Nk; in a cache Nk is the length of the sequence)
   *  and %flashc.shift (index: Nk - Nq, the distance from the last query's position to the last key; 0 in a cache). */
  const char *mask_code;
  /** Code that replaces the scaled score, or null. It may read the same values and the scaled score %s (f32), and
   *  ends with `flash.yield %t : f32`. */
  const char *score_code;
  const FlashcCapture *captures;
  size_t num_captures;
  /** B, Hk, Nq, Nk: positive, for a kernel of this extent only; or FLASHC_ANY. */
  int64_t batch, key_heads, queries, keys;
  /** In attention, omits lse: it is not computed, and the kernel has no argument for it. In the backward pass, omits
   *  the argument dlse. */
  bool omit_lse;
  /** The operation that is computed. */
  FlashcOperation operation;
  /** In the backward pass, computes every sum in a fixed order, so that equal arguments give equal bits in every
   *  run. Otherwise the parts of dq may be added in any order, which is faster. */
  bool deterministic;
  /** In attention and the backward pass, adds one more column to every softmax. The score of this column is the head's
   *  sink (in units of the natural logarithm), and it has no value row. The log-sum-exp includes it. */
  bool sinks;
  /** In attention and the backward pass, the rate of dropout, which is rounded to a multiple of 1/256; 0 means no
   *  dropout. The rate is the chance of each probability to be set to 0 before the product with v. The other
   *  probabilities are divided by 1 - rate. Dropout does not change the log-sum-exp. */
  float dropout_p;
  /** For the gradient of a capture: the number of that capture in `captures`. It must be an array of bf16, f16, f32 or
   *  f64. */
  size_t captured;
  /** In attention, k and v are caches of sequences of different lengths, and q are the last Nq positions of each
   *  sequence. For up to 64 rows of queries per key head (group_size * queries) the kernel is a decoding kernel with
   *  its own schedule; for more, or FLASHC_ANY queries, it is the forward one (docs/decode.md). A field in
   *  FlashcCompileOptions::schedule that only one of the two kernels has chooses that kernel. */
  bool cache;
  /** If the cache consists of pages, the number of rows of a page. If 0, sequence b is in k[b] and v[b]. */
  int64_t page_size;
  /** The elements of k and v in a cache. An 8-bit element is multiplied by the scale of its page and key head, in
   *  f32. With such elements head_dim and value_dim must be multiples of 16, and so must page_size if pages have scales
   *  of their own. */
  FlashcCacheType cache_type;
  bool page_scales, head_scales;
  /** Fields by name, as text, or null: a comma-separated list of names, with values after `=`, such as
   *  "sinks,dropout_p=0.25". The names are `sinks`, `deterministic` and `dropout_p`, as above, and the names that exist
   *  here only. An unknown name is an error.
   *
   *  `packed_queries`: the sequences of a cache have queries of different numbers. q is [1, Hq, total, D], o and lse
   * have one batch, too, and after the block table comes one more argument, `cu_seqlens_q` [B + 1] in i32: sequence b
   * has the rows cu_seqlens_q[b] to cu_seqlens_q[b + 1] - 1. Rows after the last offset see nothing. `batch` is the
   * number of sequences, at least 1 where there are rows, and `queries` is total. Kernels for a GPU need FLASHC_ANY for
   * both. */
  const char *options;
} FlashcAttention;

/** Prints the attention as a module in MLIR's text form, for flashcCompileText or the flashc program. The caller
 *  frees `*out` with flashcStringDestroy. */
FLASHC_EXPORTED FlashcStatus flashcAttentionGetText(FlashcContext context, const FlashcAttention *attention, char **out,
                                                    char **message);

/** Compiles the attention, or finds its kernel in memory or on disk. `options` may be null. The caller owns `*out`. */
FLASHC_EXPORTED FlashcStatus flashcCompileAttention(FlashcContext context, const FlashcAttention *attention,
                                                    const FlashcCompileOptions *options, FlashcKernel *out,
                                                    char **message);

/** The kernels that read caches (docs/decode.md). */
typedef enum FlashcKernelKind {
  /** A kernel for any number of queries. To get it, compile the attention with `queries` as FLASHC_ANY. */
  FLASHC_FORWARD_KERNEL = 0,
  /** A kernel for this number of queries, which processes 16 rows of a key head at a time. */
  FLASHC_DECODE_KERNEL = 1
} FlashcKernelKind;

/** A launch of an attention that reads a cache. */
typedef struct FlashcCacheLaunch {
  /** Multiprocessors of the GPU; positive. */
  int64_t multiprocessors;
  /** The number of parts into which each sequence's keys are divided; parts run in parallel and are merged. 0 stands
   *  for the fastest number. */
  int64_t splits;
  /** Makes the bits of a row depend only on its own sequence and the number of queries. Then `splits` must be 0. */
  bool batch_invariant;
} FlashcCacheLaunch;

/** Chooses the best kernel for a launch, and its schedule in the form of FlashcCompileOptions::schedule. The choice
 *  depends on the attention's batch, key_heads, queries and keys (of the longest sequence), which must be positive,
 *  and on the target, table and schedule of `options` (may be null): a field of the schedule that only one kind of
 *  kernel has chooses that kind. The caller frees `*schedule` with flashcStringDestroy. */
FLASHC_EXPORTED FlashcStatus flashcAttentionChooseKernel(const FlashcAttention *attention,
                                                         const FlashcCacheLaunch *launch,
                                                         const FlashcCompileOptions *options, FlashcKernelKind *kind,
                                                         char **schedule, char **message);

/** Return the kernel's PTX with all entries, its manifest (JSON; docs/manifest.md), its schedule in the form of
 *  FlashcCompileOptions::schedule (if there are variants, the one for any number of queries), and the choices for
 *  every entry with their reasons, for people (docs/schedules.md). The texts belong to the kernel. For the CPU all
 *  texts but the manifest are empty; for a null kernel all texts are null. Reading the PTX compiles the entries that no
 *  launch has needed yet; the PTX is null if there is no memory. */
FLASHC_EXPORTED const char *flashcKernelGetPTX(FlashcKernel kernel);
FLASHC_EXPORTED const char *flashcKernelGetManifest(FlashcKernel kernel);
FLASHC_EXPORTED const char *flashcKernelGetSchedule(FlashcKernel kernel);
FLASHC_EXPORTED const char *flashcKernelGetDecisions(FlashcKernel kernel);

/** Prints the program at a level: "flash", "loops", and for a GPU "tile", "nvvm", "llvm". The caller frees `*out`
 *  with flashcStringDestroy. */
FLASHC_EXPORTED FlashcStatus flashcKernelGetIR(FlashcKernel kernel, const char *level, char **out, char **message);

typedef struct FlashcArgument FlashcArgument;

/** Totals over one call, counted from the loops: tiles that a mask rules out cost nothing. The numbers are integers,
 *  exact up to 2^53 and the nearest double above: a head of 2^31 queries and keys takes 2^70 FLOPs. */
typedef struct FlashcCost {
  /** FLOPs of the two products, and of everything else; an addition, a multiplication or a function counts 1 each. */
  double matmul_flops, other_flops;
  /** Traffic between the device's memory and the chip. */
  double bytes_read, bytes_written;
} FlashcCost;

/** Counts the cost of a call with these arguments, of which only the extents are read. If a mask bounds the keys of
 *  each tile of queries, tiles of queries are counted one by one, and more than 2^17 of them are an error. */
FLASHC_EXPORTED FlashcStatus flashcKernelGetCost(FlashcKernel kernel, const FlashcArgument *arguments, size_t count,
                                                 FlashcCost *out, char **message);

FLASHC_EXPORTED void flashcKernelDestroy(FlashcKernel kernel);

/*===--------------------------------------------------------------------------------------------------------------===*\
|* Launching
\*===--------------------------------------------------------------------------------------------------------------===*/

/** An argument of a launch: an array in the memory of the GPU (of the host for the CPU), or a scalar. Its extents
 *  and strides are read during the call only. */
struct FlashcArgument {
  /** Address of the first element; 0 for a scalar, and allowed to be 0 if an extent is 0. */
  uint64_t address;
  /** Number of extents and of strides; 0 for a scalar. */
  size_t rank;
  const int64_t *extents;
  /** In elements; the last is 1. */
  const int64_t *strides;
  /** A scalar's bytes in its own type, lowest first. */
  uint64_t scalar;
};

/** Takes the place of a GPU's number for a kernel whose target is "cpu", and means this machine's processor. */
#define FLASHC_DEVICE_CPU (-1)

/** Loads the kernel on a GPU (0 is the first), into its primary context, which the CUDA runtime and PyTorch use. The
 *  calling thread's current CUDA context does not change. A kernel that this context loaded there before is not
 *  loaded again. If the kernel has variants (docs/manifest.md), an entry is compiled, and assembled by the driver,
 *  at the first launch that takes it, or by flashcLoadedKernelLoadAll. The caller owns `*out`. */
FLASHC_EXPORTED FlashcStatus flashcKernelLoad(FlashcKernel kernel, int device, FlashcLoadedKernel *out, char **message);

/** Starts the kernel on `stream`, a CUstream or cudaStream_t of the same GPU (null: the default stream), and returns
 *  before it ends; on the CPU there is no stream, and the call returns when the results are complete. The arguments
 *  are those of the manifest, in order. The call checks their number, ranks, extents (also that extents agree), strides
 *  and alignment, but cannot check the sizes of the memory behind addresses. If there are no queries or no batch,
 *  nothing is launched. If there are queries but no keys, the call is an error on a GPU (the caller writes o = 0 and
 *  lse = -inf). The first launch of an entry compiles and loads the entry, also while the stream is captured. If it
 *  does not compile, the status is FLASHC_COMPILE_ERROR; if it does not load, FLASHC_GPU_ERROR. The next launch then
 *  tries again. */
FLASHC_EXPORTED FlashcStatus flashcLoadedKernelLaunch(FlashcLoadedKernel kernel, const FlashcArgument *arguments,
                                                      size_t count, void *stream, char **message);

/** Launches with a plan, which is a number other than 0. With a plan the caller promises that the arrays that the mask
 *  reads have not changed since the first launch with the same plan. On a GPU, the result of the kernels that evaluate
 *  the mask on tiles is kept, and later launches with this plan skip these kernels. If a mask reads no array, they are
 *  skipped without a plan too. The memory for results is bounded (docs/manifest.md). */
FLASHC_EXPORTED FlashcStatus flashcLoadedKernelLaunchPlanned(FlashcLoadedKernel kernel, const FlashcArgument *arguments,
                                                             size_t count, uint64_t plan, void *stream, char **message);

/** Frees the results that launches with this plan kept. The launches, and graphs that captured them, must have
 *  ended. */
FLASHC_EXPORTED FlashcStatus flashcLoadedKernelForgetPlan(FlashcLoadedKernel kernel, uint64_t plan, char **message);

/** The results of masks that a kernel keeps on its GPU; all 0 on the CPU. */
typedef struct FlashcMaskMaps {
  /** The number of maps that are kept, and their bytes. */
  uint64_t maps, bytes;
  /** Launches that found their map, and launches that had to evaluate their mask. */
  uint64_t hits, misses;
} FlashcMaskMaps;

FLASHC_EXPORTED FlashcMaskMaps flashcLoadedKernelGetMaskMaps(FlashcLoadedKernel kernel);

/** Compiles and loads every entry of the kernel that no launch has needed yet. Then no later launch waits for the
 *  compiler and the driver's assembler, which take about a second. Does nothing on the CPU, or if the kernel has no
 *  variants. */
FLASHC_EXPORTED FlashcStatus flashcLoadedKernelLoadAll(FlashcLoadedKernel kernel, char **message);

/** Releases the kernel, whose launches must have ended. It stays loaded until its context and its FlashcKernel are
 *  destroyed. */
FLASHC_EXPORTED void flashcLoadedKernelDestroy(FlashcLoadedKernel kernel);

#ifdef __cplusplus
}
#endif

#include "flashc-c/explain.h"
#include "flashc-c/plain.h"

#endif /* FLASHC_C_FLASHC_H */
