//===- CPUGuards.cpp - what a program on the CPU must not do ------------------------------------------------------===//

#include "CPUGuards.h"
#include "flashc/Support/Place.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Index/IR/IndexOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Pass/Pass.h"

using namespace mlir;
using Predicate = arith::CmpIPredicate;

/// Returns the op and its location, as a diagnostic prints them.
static std::string describe(Operation *op, StringRef what) {
  return (flashc::describePlace(op->getLoc()) + "'" + op->getName().getStringRef() + "' " + what).str();
}

static void require(ImplicitLocOpBuilder &b, Operation *op, Value condition, StringRef what) {
  cf::AssertOp::create(b, condition, describe(op, what));
}

//===--------------------------------------------------------------------------------------------------------------===//
// Elements
//===--------------------------------------------------------------------------------------------------------------===//

static void guardElement(Operation *op, Value array, ValueRange indices) {
  ImplicitLocOpBuilder b(op->getLoc(), op);
  auto type = cast<ShapedType>(array.getType());
  for (auto [dim, index] : llvm::enumerate(indices)) {
    Value extent;
    if (!type.isDynamicDim(dim))
      extent = arith::ConstantIndexOp::create(b, type.getDimSize(dim));
    else if (isa<TensorType>(type))
      extent = tensor::DimOp::create(b, array, dim);
    else
      extent = memref::DimOp::create(b, array, dim);
    // An unsigned comparison, in which a negative index is a large number.
    Value isInside = arith::CmpIOp::create(b, Predicate::ult, index, extent);
    require(b, op, isInside, ("is out of bounds in dimension " + Twine(dim)).str());
  }
}

/// Inserts a guard for a tensor.dim or memref.dim: its index must be below the rank of the array.
template <typename DimOpTy> static void guardDim(DimOpTy op) {
  int64_t rank = cast<ShapedType>(op.getSource().getType()).getRank();
  if (std::optional<int64_t> known = op.getConstantIndex(); known && *known >= 0 && *known < rank)
    return;
  ImplicitLocOpBuilder b(op.getLoc(), op);
  Value end = arith::ConstantIndexOp::create(b, rank);
  require(b, op, arith::CmpIOp::create(b, Predicate::ult, op.getIndex(), end), "asks for a dimension past the rank");
}

//===--------------------------------------------------------------------------------------------------------------===//
// Divisions
//===--------------------------------------------------------------------------------------------------------------===//

static bool isSignedDivision(Operation *op) {
  return isa<arith::DivSIOp, arith::RemSIOp, arith::CeilDivSIOp, arith::FloorDivSIOp, index::DivSOp, index::RemSOp,
             index::CeilDivSOp, index::FloorDivSOp>(op);
}

static bool isDivision(Operation *op) {
  return isSignedDivision(op) ||
         isa<arith::DivUIOp, arith::RemUIOp, arith::CeilDivUIOp, index::DivUOp, index::RemUOp, index::CeilDivUOp>(op);
}

static void guardDivision(Operation *op) {
  Value dividend = op->getOperand(0), divisor = op->getOperand(1);
  APInt known;
  bool isKnown = matchPattern(divisor, m_ConstantInt(&known));
  if (!divisor.getType().isIntOrIndex() || (isKnown && !known.isZero() && !known.isAllOnes()))
    return;
  ImplicitLocOpBuilder b(op->getLoc(), op);
  auto compare = [&](Value value, const APInt &number) -> Value {
    Value constant = arith::ConstantOp::create(b, b.getIntegerAttr(value.getType(), number));
    return arith::CmpIOp::create(b, Predicate::ne, value, constant);
  };
  unsigned width = divisor.getType().isIndex() ? 64 : divisor.getType().getIntOrFloatBitWidth();
  if (!isKnown || known.isZero())
    require(b, op, compare(divisor, APInt::getZero(width)), "divides by zero");
  if (!isSignedDivision(op))
    return;
  Value fits = arith::OrIOp::create(b, compare(divisor, APInt::getAllOnes(width)),
                                    compare(dividend, APInt::getSignedMinValue(width)));
  require(b, op, fits, "divides the least integer by -1");
}

//===--------------------------------------------------------------------------------------------------------------===//
// Passes
//===--------------------------------------------------------------------------------------------------------------===//

namespace {

struct GuardElements : PassWrapper<GuardElements, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(GuardElements)
  StringRef getArgument() const final { return "flash-guard-elements"; }
  StringRef getDescription() const final {
    return "elements are read and written inside their arrays, or a cf.assert fails";
  }
  void getDependentDialects(DialectRegistry &registry) const final {
    registry.insert<arith::ArithDialect, cf::ControlFlowDialect>();
  }

  void runOnOperation() final {
    getOperation().walk([](Operation *op) {
      if (auto extract = dyn_cast<tensor::ExtractOp>(op))
        guardElement(op, extract.getTensor(), extract.getIndices());
      else if (auto insert = dyn_cast<tensor::InsertOp>(op))
        guardElement(op, insert.getDest(), insert.getIndices());
      else if (auto load = dyn_cast<memref::LoadOp>(op))
        guardElement(op, load.getMemRef(), load.getIndices());
      else if (auto store = dyn_cast<memref::StoreOp>(op))
        guardElement(op, store.getMemRef(), store.getIndices());
      else if (auto dim = dyn_cast<tensor::DimOp>(op))
        guardDim(dim);
      else if (auto dim = dyn_cast<memref::DimOp>(op))
        guardDim(dim);
    });
  }
};

struct GuardDivisions : PassWrapper<GuardDivisions, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(GuardDivisions)
  StringRef getArgument() const final { return "flash-guard-divisions"; }
  StringRef getDescription() const final { return "integers are divided where that is defined, or a cf.assert fails"; }
  void getDependentDialects(DialectRegistry &registry) const final {
    registry.insert<arith::ArithDialect, cf::ControlFlowDialect>();
  }

  void runOnOperation() final {
    getOperation().walk([](Operation *op) {
      if (isDivision(op))
        guardDivision(op);
    });
  }
};

} // namespace

std::unique_ptr<Pass> flashc::createGuardElementsPass() { return std::make_unique<GuardElements>(); }
std::unique_ptr<Pass> flashc::createGuardDivisionsPass() { return std::make_unique<GuardDivisions>(); }
