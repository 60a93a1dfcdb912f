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

/// How a mask is read: as it is (Primal), or with i and j exchanged (Dual). A step that streams queries needs the dual
/// view, in which bounds on queries for a tile of keys are read like bounds on keys for a tile of queries.
enum class MaskView { Primal, Dual };

/// Says which part of a dimension of an operand belongs to a tile of the step. A dimension moves with B, H, I or J if
/// the part is that of the tile's batches, query heads, queries or keys. (These are the dimensions of the step's
/// iteration space.) A dimension moves with KeyHead if the part is that of the key heads that the tile's query heads
/// read. If a dimension is `Whole`, all of it belongs to every tile.
///
/// The other enumerators occur in ops that are no steps. Part is a part of the keys. Position is a position for which a
/// table has a row. Dimensions of caches are Page, PageRow (a row of a page) and PageSlot (a page of a sequence).
/// Dimensions of packed rows are Packed, the only batch of an array of such rows, and Offset, which has one more
/// element than B.
enum class StepDim : unsigned { B, H, I, J, KeyHead, Whole, Part, Page, PageRow, PageSlot, Position, Packed, Offset };

/// An input or a state of a step. Each tile of the step has a part of it.
struct StepOperand {
  llvm::StringRef name;               // the name in the step's description, such as "q"
  unsigned number;                    // the number of the operand
  llvm::SmallVector<StepDim, 4> dims; // what the operand's dimensions move with, the outermost first
  float padding = 0;                  // the value of padded elements; for a state its identity

  bool movesWith(StepDim dim) const { return llvm::is_contained(dims, dim); }
  /// Returns the number of the operand's dimension that moves with `dim`. None if there is no such dimension.
  std::optional<unsigned> find(StepDim dim) const {
    auto *found = llvm::find(dims, dim);
    return found == dims.end() ? std::nullopt : std::optional<unsigned>(found - dims.begin());
  }
};

} // namespace mlir::flash

#endif // FLASHC_DIALECT_FLASH_IR_STEP_H
