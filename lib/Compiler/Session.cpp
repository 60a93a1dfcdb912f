//===- Session.cpp - an MLIR context whose diagnostics become an error --------------------------------------------===//

#include "flashc/Compiler/Session.h"
#include "flashc/Compiler/Compiler.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace flashc;

Session::Session(const DialectRegistry &registry)
    : context(registry, MLIRContext::Threading::DISABLED), handler(&context, [this](Diagnostic &diagnostic) {
        print(diagnostic);
        return success();
      }) {
  context.printOpOnDiagnostic(false);
}

static StringRef getName(DiagnosticSeverity severity) {
  switch (severity) {
  case DiagnosticSeverity::Note:
    return "note";
  case DiagnosticSeverity::Warning:
    return "warning";
  case DiagnosticSeverity::Error:
    return "error";
  case DiagnosticSeverity::Remark:
    break;
  }
  return "remark";
}

/// No place if it is all of the module.
void Session::print(Diagnostic &diagnostic) {
  llvm::raw_string_ostream os(diagnostics);
  auto place = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>();
  if (place && place.getLine() > 0)
    os << place.getLine() << ":" << place.getColumn() << ": ";
  os << getName(diagnostic.getSeverity()) << ": " << diagnostic.str() << "\n";
  for (Diagnostic &note : diagnostic.getNotes())
    print(note);
}

FailureOr<OwningOpRef<ModuleOp>> Session::parse(StringRef text) {
  llvm::SourceMgr sources;
  // A copy: MLIR's parser wants a zero byte at the end.
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(text, "text"), llvm::SMLoc());
  return parseModule(sources, context);
}

llvm::Error Session::takeError() {
  std::string text;
  std::swap(text, diagnostics);
  return llvm::createStringError(StringRef(text).rtrim('\n'));
}
