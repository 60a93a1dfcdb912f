//===- Session.cpp - an MLIR context whose diagnostics become an error --------------------------------------------===//

#include "flashc/Compiler/Session.h"
#include "flashc/Compiler/Compiler.h"
#include "flashc/Support/Place.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace flashc;

Session::Session(const DialectRegistry &registry, Author author)
    : author(author), context(registry, MLIRContext::Threading::DISABLED),
      handler(&context, [this](Diagnostic &diagnostic) {
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

/// The name that locations have for the parsed text, in place of a file's name.
static constexpr StringLiteral kText = "text";

/// Removes the locations that are lines of a text which flashc wrote, because a caller does not know this text.
static void dropTextLocations(ModuleOp module) {
  Location unknown = UnknownLoc::get(module.getContext());
  auto isOfText = [](Location location) {
    auto place = dyn_cast<FileLineColLoc>(location);
    return place && place.getFilename() == kText;
  };
  module.walk([&](Operation *op) {
    if (isOfText(op->getLoc()))
      op->setLoc(unknown);
    for (Region &region : op->getRegions())
      for (BlockArgument argument : region.getArguments())
        if (isOfText(argument.getLoc()))
          argument.setLoc(unknown);
  });
}

/// Removes the parts of a message that only readers of IR know: the op's name at its begin, and the number of a
/// constraint at its end.
static std::string makePlain(StringRef message) {
  static llvm::Regex op("^'[a-z_.]+' op "), constraint(" \\(C[0-9]+\\)$");
  return constraint.sub("", op.sub("", message));
}

/// The location of the whole module (line 0) is not printed.
void Session::print(Diagnostic &diagnostic) {
  llvm::raw_string_ostream os(diagnostics);
  if (author == Author::Flashc) {
    auto place = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>();
    if (place && place.getFilename() != kText)
      os << describePlace(place);
    if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
      os << getName(diagnostic.getSeverity()) << ": ";
    os << makePlain(diagnostic.str()) << "\n";
  } else {
    auto place = diagnostic.getLocation()->findInstanceOf<FileLineColLoc>();
    if (place && place.getLine() > 0)
      os << place.getLine() << ":" << place.getColumn() << ": ";
    os << getName(diagnostic.getSeverity()) << ": " << diagnostic.str() << "\n";
  }
  for (Diagnostic &note : diagnostic.getNotes())
    print(note);
}

FailureOr<OwningOpRef<ModuleOp>> Session::parse(StringRef text) {
  llvm::SourceMgr sources;
  // A copy, because MLIR's parser needs a zero byte at the end.
  sources.AddNewSourceBuffer(llvm::MemoryBuffer::getMemBufferCopy(text, kText), llvm::SMLoc());
  FailureOr<OwningOpRef<ModuleOp>> module = parseModule(sources, context);
  if (succeeded(module) && author == Author::Flashc)
    dropTextLocations(**module);
  return module;
}

llvm::Error Session::takeError() {
  std::string text;
  std::swap(text, diagnostics);
  return llvm::createStringError(StringRef(text).rtrim('\n'));
}
