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
|* why: the compiler's diagnostics, one a line, or the CUDA driver's words; the caller frees it with flashcStringDestroy.
|* On success `*message` is null. On failure nothing is handed out: the handle's `ptr` is null.
|*
|* Threads. Every function may be called from any thread at any time: a compilation has an MLIR context of its own, and
|* a context and a kernel do not change once they are made. Only destroying a handle must not overlap with its use.
|*
\*===--------------------------------------------------------------------------------------------------------------===*/
#ifndef FLASHC_C_FLASHC_H
#define FLASHC_C_FLASHC_H

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
  /** The GPU does not take the kernel, or the arrays do not suit it, or the driver failed. */
  FLASHC_GPU_ERROR = 4
} FlashcStatus;

/** What compilations share: the dialects and passes that flashc knows. */
typedef struct FlashcContext {
  void *ptr;
} FlashcContext;

/** A compiled kernel: PTX and how to launch it. It needs no context any more. */
typedef struct FlashcKernel {
  void *ptr;
} FlashcKernel;

/** A kernel in the memory of one GPU. It needs its FlashcKernel no more. */
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

/** Makes a context, which the caller owns. */
FLASHC_EXPORTED FlashcContext flashcContextCreate(void);
FLASHC_EXPORTED void flashcContextDestroy(FlashcContext context);

/*===--------------------------------------------------------------------------------------------------------------===*\
|* Compiling
\*===--------------------------------------------------------------------------------------------------------------===*/

/** How to compile. Null texts stand for the defaults; they are read during the call only. */
typedef struct FlashcCompileOptions {
  /** GPU architecture; null: "sm_90a". */
  const char *target;
  /** Overrides of the schedule table, such as "kv-tile=64,stages=2"; null: none. */
  const char *schedule;
} FlashcCompileOptions;

/** Compiles the one attention of a module in MLIR's text form, `length` bytes at `text`. `options` may be null. The
 *  caller owns `*out`. */
FLASHC_EXPORTED FlashcStatus flashcCompileText(FlashcContext context, const char *text, size_t length,
                                               const FlashcCompileOptions *options, FlashcKernel *out, char **message);

typedef enum FlashcDType { FLASHC_BF16 = 0, FLASHC_F16 = 1 } FlashcDType;

typedef enum FlashcMask {
  /** Every query sees every key. */
  FLASHC_MASK_NONE = 0,
  /** Query i sees key j when j <= i + Nk - Nq: the last query is aligned with the last key. */
  FLASHC_MASK_CAUSAL = 1
} FlashcMask;

/** An attention O = softmax(scale * Q K^T + mask) V with its log-sum-exp. One kernel serves every batch B, every number
 *  of queries Nq and of keys Nk. Its arguments are, in order,
 *    0  q    [B, query_heads, Nq, head_dim]  dtype   read
 *    1  k    [B, key_heads, Nk, head_dim]    dtype   read
 *    2  v    [B, key_heads, Nk, value_dim]   dtype   read
 *    3  o    [B, query_heads, Nq, value_dim] dtype   written
 *    4  lse  [B, query_heads, Nq]            f32     written, in units of the natural logarithm */
typedef struct FlashcAttention {
  FlashcDType dtype;
  FlashcMask mask;
  /** Multiples of 8, from 8 to 256. */
  int64_t head_dim, value_dim;
  /** Query head h reads key head h / (query_heads / key_heads); the division has no remainder. */
  int64_t query_heads, key_heads;
  /** Often 1 / sqrt(head_dim). */
  float scale;
} FlashcAttention;

/** The attention as a module in MLIR's text form, for flashcCompileText or the flashc program. The caller owns `*out`
 *  and frees it with flashcStringDestroy. */
FLASHC_EXPORTED FlashcStatus flashcAttentionGetText(FlashcContext context, const FlashcAttention *attention, char **out,
                                                    char **message);

/** Compiles the attention. `options` may be null. The caller owns `*out`. */
FLASHC_EXPORTED FlashcStatus flashcCompileAttention(FlashcContext context, const FlashcAttention *attention,
                                                    const FlashcCompileOptions *options, FlashcKernel *out,
                                                    char **message);

/** The kernel's PTX, its manifest (JSON; docs/manifest.md) and its schedule (in the form of
 *  FlashcCompileOptions::schedule). They belong to the kernel. */
FLASHC_EXPORTED const char *flashcKernelGetPTX(FlashcKernel kernel);
FLASHC_EXPORTED const char *flashcKernelGetManifest(FlashcKernel kernel);
FLASHC_EXPORTED const char *flashcKernelGetSchedule(FlashcKernel kernel);

FLASHC_EXPORTED void flashcKernelDestroy(FlashcKernel kernel);

/*===--------------------------------------------------------------------------------------------------------------===*\
|* Launching
\*===--------------------------------------------------------------------------------------------------------------===*/

/** An argument of a launch: an array in the GPU's memory, or a scalar. Its extents and strides are read during the call
 *  only. */
typedef struct FlashcArgument {
  /** Device address of the first element; 0 for a scalar. */
  uint64_t address;
  /** Number of extents and of strides; 0 for a scalar. */
  size_t rank;
  const int64_t *extents;
  /** In elements; the last is 1. */
  const int64_t *strides;
  /** A scalar's bytes in its own type, lowest first. */
  uint64_t scalar;
} FlashcArgument;

/** Loads the kernel on a GPU (0 is the first), into its primary context: that of the CUDA runtime and of PyTorch. The
 *  calling thread's current CUDA context stays what it was. The caller owns `*out`. */
FLASHC_EXPORTED FlashcStatus flashcKernelLoad(FlashcKernel kernel, int device, FlashcLoadedKernel *out, char **message);

/** Starts the kernel on `stream`, a CUstream or cudaStream_t of the same GPU (null: the default stream), and returns
 *  before it ends. The arguments are those of the manifest, in order; ranks, static extents and alignment are checked,
 *  sizes of the memory behind the addresses cannot be. */
FLASHC_EXPORTED FlashcStatus flashcLoadedKernelLaunch(FlashcLoadedKernel kernel, const FlashcArgument *arguments,
                                                      size_t count, void *stream, char **message);

/** Unloads the kernel. Its launches have ended. */
FLASHC_EXPORTED void flashcLoadedKernelDestroy(FlashcLoadedKernel kernel);

#ifdef __cplusplus
}
#endif

#endif /* FLASHC_C_FLASHC_H */
