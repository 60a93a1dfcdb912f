//===- Session.h - an MLIR context whose diagnostics become an error ----------------------------------------------===//
#ifndef FLASHC_COMPILER_SESSION_H
#define FLASHC_COMPILER_SESSION_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Error.h"

namespace flashc {

/// For one compilation of a program in text form, on one thread.
class Session {
public:
  explicit Session(const mlir::DialectRegistry &registry);

  mlir::MLIRContext &getContext() { return context; }
  /// The module in `text`, verified. Fails after a diagnostic.
  mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> parse(llvm::StringRef text);
  /// What was diagnosed since the last call: `line:column: error: ...`, one a line, notes below what they belong to.
  llvm::Error takeError();

private:
  void print(mlir::Diagnostic &diagnostic);

  mlir::MLIRContext context;
  std::string diagnostics;
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace flashc

#endif // FLASHC_COMPILER_SESSION_H
