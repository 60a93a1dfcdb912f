//===- Session.h - an MLIR context whose diagnostics become an error ----------------------------------------------===//
#ifndef FLASHC_COMPILER_SESSION_H
#define FLASHC_COMPILER_SESSION_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/Support/Error.h"

namespace flashc {

/// The author of a program's text. A caller knows the text's lines. A text that flashc wrote around a caller's code has
/// locations of the caller's lines, on ops that come from one.
enum class Author { Caller, Flashc };

/// A context for one compilation of a program in text form, on one thread.
class Session {
public:
  explicit Session(const mlir::DialectRegistry &registry, Author author = Author::Caller);

  mlir::MLIRContext &getContext() { return context; }
  /// Parses and verifies the module in `text`. Fails after a diagnostic.
  mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> parse(llvm::StringRef text);
  /// Returns the diagnostics since the last call: `line:column: error: ...`, one per line, each followed by its notes.
  /// For a text by flashc the location is the caller's line (`file:line: ...`) or missing, and the op's name and the
  /// number of its constraint are omitted.
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
