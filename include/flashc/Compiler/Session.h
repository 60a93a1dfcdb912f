//===- Session.h - an MLIR context whose diagnostics become an error ----------------------------------------------===//
#ifndef FLASHC_COMPILER_SESSION_H
#define FLASHC_COMPILER_SESSION_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Error.h"

namespace flashc {

/// Who wrote the text of a program. Caller: the caller knows the lines of the text. Flashc: flashc wrote the text
/// around code of a caller; ops that come from this code have locations of the caller's lines.
enum class Author { Caller, Flashc };

/// Owns the MLIRContext in which one program is parsed from text and compiled, on one thread. Collects the diagnostics.
class Session {
public:
  explicit Session(const mlir::DialectRegistry &registry, Author author = Author::Caller);

  mlir::MLIRContext &getContext() { return context; }
  /// Parses and verifies the module in `text`. Fails after a diagnostic.
  mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> parse(llvm::StringRef text);
  /// Returns the diagnostics since the last call. Each is one line, `line:column: error: ...`, followed by its notes.
  /// If flashc wrote the text, the location is the caller's line (`file:line: ...`) or absent; the name of the op and
  /// the number of its constraint are then omitted.
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
