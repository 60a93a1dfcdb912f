//===- Step.h - what a step of a tiled computation says of itself -------------------------------------------------===//
//
// The vocabulary of StepOpInterface (FlashInterfaces.td).
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_IR_STEP_H
#define FLASHC_DIALECT_FLASH_IR_STEP_H

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <optional>

namespace mlir::flash {

/// Whether a mask is read as it is, or with i and j exchanged: what it says about the queries for a tile of keys is
/// what it says then about the keys for a tile of queries. A step that streams queries needs that.
enum class MaskView { Primal, Dual };

/// What a dimension of a step's operand moves with: a dimension of the step's iteration space (batch, query head,
/// query, key), the key head that the query head reads, or nothing, because a tile has all of it. Ops without a step
/// also have parts of keys, and caches: pages, their rows, the pages of a sequence, and positions that a table has rows
/// for.
enum class StepDim : unsigned { B, H, I, J, KeyHead, Whole, Part, Page, PageRow, PageSlot, Position };

/// An operand of a step of which a tile has a part: an input, or a state.
struct StepOperand {
  llvm::StringRef name;               // as the step's description calls it: "q"
  unsigned number;                    // of the operand
  llvm::SmallVector<StepDim, 4> dims; // of its dimensions, outermost first
  float padding = 0;                  // what elements that do not exist hold; of a state: its identity

  bool movesWith(StepDim dim) const { return llvm::is_contained(dims, dim); }
  /// The dimension of the operand that moves with `dim`.
  std::optional<unsigned> find(StepDim dim) const {
    auto *found = llvm::find(dims, dim);
    return found == dims.end() ? std::nullopt : std::optional<unsigned>(found - dims.begin());
  }
};

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_IR_STEP_H
