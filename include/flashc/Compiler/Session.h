//===- Session.h - an MLIR context whose diagnostics become an error ----------------------------------------------===//
#ifndef FLASHC_COMPILER_SESSION_H
#define FLASHC_COMPILER_SESSION_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Error.h"

namespace flashc {

/// Who wrote a program's text: a caller, who knows its lines, or flashc, around code whose ops have locations of their
/// own where a caller has a line for them.
enum class Author { Caller, Flashc };

/// For one compilation of a program in text form, on one thread.
class Session {
public:
  explicit Session(const mlir::DialectRegistry &registry, Author author = Author::Caller);

  mlir::MLIRContext &getContext() { return context; }
  /// The module in `text`, verified. Fails after a diagnostic.
  mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> parse(llvm::StringRef text);
  /// What was diagnosed since the last call: `line:column: error: ...`, one a line, notes below what they belong to. Of
  /// a text by flashc the place is that of the caller's line (`file:line: ...`) or none, and neither the op's name nor
  /// the number of its constraint is said.
  llvm::Error takeError();

private:
  void print(mlir::Diagnostic &diagnostic);

  const Author author;
  mlir::MLIRContext context;
  std::string diagnostics;
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace flashc

#endif // FLASHC_COMPILER_SESSION_H
