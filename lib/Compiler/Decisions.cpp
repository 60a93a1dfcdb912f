//===- Decisions.cpp - what was chosen, and why -------------------------------------------------------------------===//

#include "flashc/Compiler/Compiler.h"
#include "flashc/Launch/LaunchInterface.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace flashc;

/// The manifests of a lowered module, in the order of its entries.
static SmallVector<DictionaryAttr, 2> getManifests(ModuleOp module) {
  SmallVector<DictionaryAttr, 2> manifests;
  module.walk([&](Operation *op) {
    if (auto manifest = op->getAttrOfType<DictionaryAttr>(kManifestAttrName))
      manifests.push_back(manifest);
  });
  return manifests;
}

/// Whether there are entries for numbers of queries.
static bool varies(const ScheduleDecision &decision) {
  return llvm::any_of(decision.choices, [](const ScheduleChoice &choice) { return choice.maxQueries.has_value(); });
}

static std::string describe(ArrayRef<LaunchCondition> conditions) {
  auto print = [](const LaunchCondition &condition) {
    return condition.formula + " <= " + std::to_string(condition.bound);
  };
  return llvm::join(llvm::map_range(conditions, print), " and ");
}

static void printEntry(llvm::raw_ostream &os, DictionaryAttr manifest, const ScheduleChoice &choice,
                       const ScheduleDecision &decision) {
  os << "entry " << manifest.getAs<StringAttr>("kernel").getValue() << ": ";
  if (choice.maxQueries)
    os << "up to " << *choice.maxQueries << " queries (arg" << decision.queriesArgument << ".dim2)";
  else if (decision.key.queries)
    os << *decision.key.queries << " queries";
  else
    os << (varies(decision) && choice.shortSequences.empty() ? "any other number of queries" : "any number of queries");
  if (!choice.shortSequences.empty())
    os << ", if " << describe(choice.shortSequences);
  os << "\n";
  printChoice(os, choice, decision);
  if (!choice.queryTiles.empty())
    os << "  tiles of queries: " << choice.queryTiles << "\n";
  os << "  CTAs: ";
  llvm::interleave(
      manifest.getAs<ArrayAttr>("grid").getAsValueRange<StringAttr>(), [&](StringRef extent) { os << extent; },
      [&] { os << " x "; });
  os << "\n";
  if (auto why = manifest.getAs<StringAttr>("sorted"))
    os << "  points: sorted by their work, since " << why.getValue() << "\n";
  if (!choice.mask.empty())
    os << "  loops over keys follow the mask: " << choice.mask << "\n";
}

std::string flashc::describeDecisions(const LoweredKernel &kernel) {
  std::string text;
  llvm::raw_string_ostream os(text);
  const ScheduleDecision &decision = kernel.decision;
  SmallVector<DictionaryAttr, 2> manifests = getManifests(*kernel.module);
  os << "decisions for " << decision.key.str() << ": " << decision.maskReason << "\n";
  // A launch asks the variants in order; the entry for every other launch is the module's first.
  for (auto [manifest, choice] : llvm::zip(llvm::drop_begin(manifests), decision.choices))
    printEntry(os, manifest, choice, decision);
  printEntry(os, manifests.front(), decision.choices.back(), decision);
  return text;
}
