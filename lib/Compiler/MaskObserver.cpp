//===- MaskObserver.cpp - what flash-bound-loops finds of a mask --------------------------------------------------===//

#include "MaskObserver.h"
#include "ValueNames.h"
#include "flashc/Dialect/Flash/IR/TileTables.h"
#include "flashc/Dialect/Flash/Transforms/Transforms.h"
#include "flashc/Launch/LaunchInterface.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace flashc;

/// Returns the lines that `print` prints. A line is a formula. For a part of a mask without a formula it is "unknown:
/// ...".
static std::vector<std::string> printLines(llvm::function_ref<void(llvm::raw_ostream &)> print) {
  std::string text;
  llvm::raw_string_ostream os(text);
  print(os);
  std::vector<std::string> lines;
  for (StringRef line : llvm::split(StringRef(text).rtrim('\n'), '\n')) {
    if (line.empty())
      continue;
    bool isUnknown = line.consume_front("opaque:");
    if (lines.empty())
      line.consume_front("or "); // the first part of a union begins with `or `, too
    std::string formula = ((isUnknown ? "unknown:" : "") + line).str();
    if (!isUnknown || !llvm::is_contained(lines, formula))
      lines.push_back(std::move(formula));
  }
  return lines;
}

/// If the loop begins at the constant 0, puts 0 in the place of the symbol for the loop's begin. This makes the bounds
/// easier to read.
static flash::LoopBounds simplify(flash::LoopBounds bounds, MLIRContext *context) {
  if (!bounds.begin.isConstant() || bounds.begin.getConstant() != 0)
    return bounds;
  AffineExpr begin = getAffineSymbolExpr(flash::LoopBounds::Begin, context), zero = getAffineConstantExpr(0, context);
  for (auto *intervals : {&bounds.kept, &bounds.cut})
    for (flash::TileInterval &interval : *intervals)
      for (auto *list : {&interval.begin, &interval.end, &interval.conditions, &interval.rooms})
        for (AffineExpr &expr : *list)
          expr = expr.replace(begin, zero);
  return bounds;
}

/// Canonicalization removes a loop over key tiles (or query tiles) if there is only one tile. Puts such a loop around
/// `op` again. Returns false if `op` was not in such a loop.
static bool addLoopOfOneTile(flash::StepOpInterface op) {
  OpOperand &position = op->getOpOperand(op.getPosition().getBeginOperandIndex() + unsigned(op.getStreamedDim()));
  int64_t tile = op.getTileExtent(op.getStreamedDim());
  if (!isConstantIntValue(position.get(), 0) || ShapedType::isDynamic(tile))
    return false;
  OpBuilder b(op);
  Location loc = op.getLoc();
  SmallVector<flash::StepOperand> state = op.getStepState();
  auto inits = llvm::map_to_vector(state, [&](const flash::StepOperand &part) { return op->getOperand(part.number); });
  Value zero = arith::ConstantIndexOp::create(b, loc, 0), size = arith::ConstantIndexOp::create(b, loc, tile);
  auto loop = scf::ForOp::create(b, loc, zero, size, size, inits);
  op->replaceAllUsesWith(loop.getResults());
  op->moveBefore(loop.getBody(), loop.getBody()->end());
  position.set(loop.getInductionVar());
  for (auto [part, carried] : llvm::zip_equal(state, loop.getRegionIterArgs()))
    op->setOperand(part.number, carried);
  b.setInsertionPointToEnd(loop.getBody());
  scf::YieldOp::create(b, loc, op->getResults());
  return true;
}

static MaskExplanation explainMask(func::FuncOp function, flash::StepOpInterface op,
                                   const std::vector<std::string> &arguments, bool mayRunMask = true) {
  std::optional<flash::KeyBounds> found = flash::computeKeyBounds(op, mayRunMask);
  if (!found) {
    IRMapping mapping;
    OwningOpRef<func::FuncOp> copy(cast<func::FuncOp>(function->clone(mapping)));
    auto alone = cast<flash::StepOpInterface>(mapping.lookup(op.getOperation()));
    if (mayRunMask && addLoopOfOneTile(alone)) // a single tile does not need a mask at run time
      return explainMask(*copy, alone, arguments, /*mayRunMask=*/false);
    return {"opaque", {"flash-bound-loops cannot bound this loop"}, {}, {}};
  }
  ValueNames names(function, op, arguments);
  auto getName = [&](Value array) { return names.describe(array); };
  auto printValue = [&](raw_ostream &os, Value value, flash::MaskSpace::At at) { os << names.describe(value, at); };
  flash::MaskClass maskClass = flash::classify(found->mask, found->bounds, found->ranged.get(), getName);
  flash::LoopBounds bounds = simplify(found->bounds, op.getContext());
  MaskExplanation result;
  result.maskClass = flash::MaskClass::getName(maskClass.kind);
  if (!maskClass.reason.empty())
    result.reasons.push_back(maskClass.reason);
  result.formulas = printLines([&](llvm::raw_ostream &os) { found->mask.print(os, printValue, op.getMaskView()); });
  if (found->ranged) { // a map bounds the loops then; the formulas do not
    result.bounds = {"tiles that hold a kept pair"};
    return result;
  }
  result.bounds = printLines([&](llvm::raw_ostream &os) { bounds.print(os, printValue); });
  return result;
}

namespace {

/// Explains the mask just before flash-bound-loops runs.
struct MaskObserver : PassInstrumentation {
  MaskObserver(std::optional<MaskExplanation> &mask, std::vector<std::string> arguments)
      : mask(mask), arguments(std::move(arguments)) {}

  void runBeforePass(Pass *pass, Operation *root) override {
    if (pass->getArgument() != "flash-bound-loops" || mask)
      return;
    mask.emplace();                             // an attention without a mask region keeps every pair
    root->walk([&](flash::StepOpInterface op) { // the first nest has the main kernel
      if (!op.hasMask())
        return WalkResult::advance();
      mask = explainMask(op->getParentOfType<func::FuncOp>(), op, arguments);
      return WalkResult::interrupt();
    });
  }

  std::optional<MaskExplanation> &mask;
  std::vector<std::string> arguments;
};

} // namespace

CompileOptions flashc::observeMask(const CompileOptions &options, func::FuncOp function,
                                   std::optional<MaskExplanation> &mask) {
  std::vector<std::string> names;
  for (const ManifestArgument &argument : describeLaunch(function).arguments)
    names.push_back(argument.name);
  CompileOptions observed = options;
  observed.configure = [names, &mask, configure = options.configure](PassManager &pm) {
    pm.addInstrumentation(std::make_unique<MaskObserver>(mask, names));
    return configure ? configure(pm) : success();
  };
  return observed;
}
