//===- Step.h - how a step of a tiled computation describes its operands ------------------------------------------===//
//
// The types that StepOpInterface (FlashInterfaces.td) uses.
//
//===--------------------------------------------------------------------------------------------------------------===//
#ifndef FLASHC_DIALECT_FLASH_IR_STEP_H
#define FLASHC_DIALECT_FLASH_IR_STEP_H

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <optional>

namespace mlir::flash {

/// Whether a mask is read as it is (Primal), or with i and j exchanged (Dual). A step that streams queries needs the
/// dual view: bounds on queries for a tile of keys are then read like bounds on keys for a tile of queries.
enum class MaskView { Primal, Dual };

/// The quantity that a dimension of a step's operand moves with: a dimension of the step's iteration space (batch B,
/// query head H, query I, key J), or the key head that the query head reads. A tile has all of a dimension that is
/// `Whole`. The others are dimensions of ops that are no steps: parts of the keys and, of caches, pages, the rows of a
/// page, the pages of a sequence, and positions for which a table has rows.
enum class StepDim : unsigned { B, H, I, J, KeyHead, Whole, Part, Page, PageRow, PageSlot, Position };

/// An operand of a step, an input or a state, of which each tile has a part.
struct StepOperand {
  llvm::StringRef name;               // the name in the step's description, such as "q"
  unsigned number;                    // the number of the operand
  llvm::SmallVector<StepDim, 4> dims; // what its dimensions move with, outermost first
  float padding = 0;                  // the value of elements that do not exist; for a state its identity

  bool movesWith(StepDim dim) const { return llvm::is_contained(dims, dim); }
  /// The dimension of the operand that moves with `dim`.
  std::optional<unsigned> find(StepDim dim) const {
    auto *found = llvm::find(dims, dim);
    return found == dims.end() ? std::nullopt : std::optional<unsigned>(found - dims.begin());
  }
};

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_IR_STEP_H
