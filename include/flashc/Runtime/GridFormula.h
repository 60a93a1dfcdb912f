//===- GridFormula.h - a grid extent as a formula of the arguments' shapes ----------------------------------------===//
#ifndef FLASHC_RUNTIME_GRIDFORMULA_H
#define FLASHC_RUNTIME_GRIDFORMULA_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <optional>
#include <string>

namespace flashc {

/// A formula of the manifest (docs/manifest.md):
///   formula ::= integer | argK.dimN | sm_count
///             | ceildiv(formula, formula) | mul(formula, formula) | min(formula, formula) | add(formula, formula)
///             | mul64(formula, formula) | add64(formula, formula)
/// Values of mul and add must be below 2^31, because kernels compute such products and sums of extents in 32 bits, too.
/// mul64 and add64 are for bytes of memory, which kernels count in 64 bits.
class GridFormula {
public:
  GridFormula() = default;
  GridFormula(int64_t constant) : steps{{Op::Constant, constant}} {}
  static GridFormula extent(unsigned argument, unsigned dim) { return GridFormula({Op::Extent, argument, dim}); }
  static GridFormula smCount() { return GridFormula({Op::SMCount}); }
  friend GridFormula operator+(GridFormula x, const GridFormula &y) { return x.append(y, Op::Add); }
  friend GridFormula operator*(GridFormula x, const GridFormula &y) { return x.append(y, Op::Mul); }
  friend GridFormula ceilDiv(GridFormula x, const GridFormula &y) { return x.append(y, Op::CeilDiv); }
  friend GridFormula min(GridFormula x, const GridFormula &y) { return x.append(y, Op::Min); }
  friend GridFormula mul64(GridFormula x, const GridFormula &y) { return x.append(y, Op::Mul64); }
  friend GridFormula add64(GridFormula x, const GridFormula &y) { return x.append(y, Op::Add64); }

  static llvm::Expected<GridFormula> parse(llvm::StringRef text);
  /// Returns text that `parse` reads.
  std::string getText() const;

  /// Returns the value for arguments of these shapes on a device with `smCount` multiprocessors. Fails if the formula
  /// names an argument or a dimension that does not exist, divides by zero, or has a product or a sum of 2^31 or more
  /// (2^63 or more for mul64 and add64).
  llvm::Expected<int64_t> evaluate(llvm::ArrayRef<llvm::ArrayRef<int64_t>> shapes, int64_t smCount) const;

  /// If the formula is only an extent, returns the numbers of the argument and of the dimension. None for other
  /// formulas.
  std::optional<std::pair<unsigned, unsigned>> getExtent() const;

  /// Returns the formula in words, such as "4 times dimension 1 of argument 1 (k)". `describe` names an argument.
  std::string str(llvm::function_ref<std::string(unsigned)> describe) const;

private:
  friend class GridFormulaParser;
  enum class Op { Constant, Extent, SMCount, CeilDiv, Mul, Min, Add, Mul64, Add64 };
  /// One step of the formula in postfix order. For a constant, `first` is the value. For an extent, `first` is the
  /// number of the argument, and `second` that of the dimension.
  struct Step {
    Op op;
    int64_t first = 0, second = 0;
  };
  explicit GridFormula(Step step) : steps{step} {}
  GridFormula &append(const GridFormula &right, Op op) {
    steps.append(right.steps);
    steps.push_back({op});
    return *this;
  }
  llvm::SmallVector<Step, 4> steps;
};

} // namespace flashc

#endif // FLASHC_RUNTIME_GRIDFORMULA_H
