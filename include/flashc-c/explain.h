/*===- explain.h - what a mask does to tiles, for C ---------------------------------------------------------------===*\
|*
|* Explanations say which tiles of a call a mask skips, and why. flashc.h includes this header.
|*
\*===--------------------------------------------------------------------------------------------------------------===*/
#ifndef FLASHC_C_EXPLAIN_H
#define FLASHC_C_EXPLAIN_H

#include "flashc-c/flashc.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The effect of a mask on the tiles of one call: text, and the tiles that a kernel visits. */
typedef struct FlashcExplanation {
  void *ptr;
} FlashcExplanation;

/** Explains a call of the one attention of a module in MLIR's text form, `length` bytes at `text`, with these
 *  arguments. They are as for a launch, but addresses are in this process's memory, or 0 if the elements are
 *  unknown. Only arrays that loop bounds read (lengths, document ids) must be known; a message names a missing one.
 *  Nothing is computed, and no GPU is needed. Tiles are those of the kernel that a launch with these extents takes.
 *  For the target "cpu", and for f32, they are those of the loops that run on the CPU. `options` may be null. The
 *  caller owns `*out`. */
FLASHC_EXPORTED FlashcStatus flashcExplainText(FlashcContext context, const char *text, size_t length,
                                               const FlashcCompileOptions *options, const FlashcArgument *arguments,
                                               size_t count, FlashcExplanation *out, char **message);

/** Explains a call of an attention as flashcExplainText does. */
FLASHC_EXPORTED FlashcStatus flashcExplainAttention(FlashcContext context, const FlashcAttention *attention,
                                                    const FlashcCompileOptions *options,
                                                    const FlashcArgument *arguments, size_t count,
                                                    FlashcExplanation *out, char **message);

/** Return the explanation for people (docs/explain.md), and as a JSON object. The object's keys are
 *   function, batch, heads, queries, keys    the name and the extents
 *   mask_class                               "exact", "mapped", "conservative" or "opaque"
 *   reasons, formulas, bounds                lists of texts
 *   tile, tile_source                        [queries, keys], and the origin of the tile shape
 *   streams_queries                          whether queries are streamed past resident keys
 *   rows, columns                            resident tiles (of queries, or of keys with streams_queries) and streamed
 *                                            tiles of a head
 *   varies_by_batch, varies_by_head          whether the tiles may differ between batches, between heads
 *   counted_rows                             rows that were counted; if fewer than rows, they are evenly spaced, and
 *                                            counts are estimates
 *   counts                                   skipped, partial and full tiles of all heads; may exceed 64 bits
 *  The texts belong to the explanation; for a null explanation they are null. */
FLASHC_EXPORTED const char *flashcExplanationGetText(FlashcExplanation explanation);
FLASHC_EXPORTED const char *flashcExplanationGetJSON(FlashcExplanation explanation);

/** Returns the tiles of one query head, row by row, as rows * columns bytes. A byte is 0 for a tile that is skipped, 1
 *  for a tile that is visited with the mask, and 2 for a tile that is visited without the mask. The bytes belong to
 *  the explanation, which lists them at the first call. Returns null if there is no such head, no explanation or no
 *  memory, or if the counts are estimates. */
FLASHC_EXPORTED const uint8_t *flashcExplanationGetTiles(FlashcExplanation explanation, int64_t batch, int64_t head);

FLASHC_EXPORTED void flashcExplanationDestroy(FlashcExplanation explanation);

#ifdef __cplusplus
}
#endif

#endif /* FLASHC_C_EXPLAIN_H */
