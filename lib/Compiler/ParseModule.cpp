//===- ParseModule.cpp - text or bytecode to a module -------------------------------------------------------------===//

#include "flashc/Compiler/Compiler.h"
#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Interfaces/ShapedOpInterfaces.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;

/// Rejects text that nests brackets so deeply that the recursive parser would run out of stack.
static LogicalResult checkNesting(const llvm::SourceMgr &sources, MLIRContext &context) {
  constexpr int kMaxDepth = 1000;
  StringRef text = sources.getMemoryBuffer(sources.getMainFileID())->getBuffer();
  if (isBytecode(sources.getMemoryBuffer(sources.getMainFileID())->getMemBufferRef()))
    return success();
  int depth = 0;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '"') {
      while (++at < text.size() && text[at] != '"' && text[at] != '\n')
        at += text[at] == '\\';
    } else if (text.substr(at).starts_with("//")) {
      at = text.find('\n', at);
      if (at == StringRef::npos)
        break;
    } else if (StringRef("([{<").contains(text[at]) && ++depth > kMaxDepth) {
      auto [line, column] = sources.getLineAndColumn(llvm::SMLoc::getFromPointer(text.data() + at));
      StringRef name = sources.getMemoryBuffer(sources.getMainFileID())->getBufferIdentifier();
      return emitError(FileLineColLoc::get(&context, name, line, column), "expected brackets to nest at most ")
             << kMaxDepth << " deep";
    } else if (StringRef(")]}>").contains(text[at]) && !text.take_front(at + 1).ends_with("->")) {
      --depth;
    }
  }
  return success();
}

/// Rejects a tensor.dim or memref.dim with a constant index that is not below the array's rank. MLIR's verifier allows
/// such an op, since it may be in code that is never run, but the op's result is undefined.
static LogicalResult checkDimensions(ModuleOp module) {
  WalkResult walk = module.walk([](ShapedDimOpInterface op) {
    std::optional<int64_t> dim = getConstantIntValue(op.getDimension());
    auto type = dyn_cast<ShapedType>(op.getShapedValue().getType());
    if (!dim || !type || !type.hasRank() || (*dim >= 0 && *dim < type.getRank()))
      return WalkResult::advance();
    op->emitOpError("expected a dimension below ") << type.getRank() << ", got " << *dim;
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}

FailureOr<OwningOpRef<ModuleOp>> flashc::parseModule(llvm::SourceMgr &sources, MLIRContext &context) {
  if (failed(checkNesting(sources, context)))
    return failure();
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(sources, ParserConfig(&context));
  if (!module || failed(checkDimensions(*module)))
    return failure();
  return module;
}
