//===- Decisions.cpp - what was chosen, and why -------------------------------------------------------------------===//

#include "flashc/Compiler/LoweredKernel.h"
#include "flashc/Launch/Launch.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace flashc;

/// Whether some entries are only for launches with few queries (ScheduleChoice::maxQueries).
static bool varies(const ScheduleDecision &decision) {
  return llvm::any_of(decision.choices, [](const ScheduleChoice &choice) { return choice.maxQueries.has_value(); });
}

static std::string describe(ArrayRef<LaunchCondition> conditions) {
  auto print = [](const LaunchCondition &condition) {
    return condition.formula.getText() + " <= " + std::to_string(condition.bound);
  };
  return llvm::join(llvm::map_range(conditions, print), " and ");
}

static llvm::raw_ostream &printGrid(llvm::raw_ostream &os, const ManifestKernel &kernel) {
  os << "  CTAs: ";
  llvm::interleave(kernel.grid, os, [&](const GridFormula &extent) { os << extent.getText(); }, " x ");
  return os;
}

static void printEntry(llvm::raw_ostream &os, const Launch &launch, const ScheduleChoice &choice,
                       const ScheduleDecision &decision) {
  os << "entry " << launch.kernel << ": ";
  if (choice.maxQueries)
    os << "up to " << *choice.maxQueries << " queries (arg" << decision.queriesArgument << ".dim2)";
  else if (decision.question.queries)
    os << *decision.question.queries << " queries";
  else
    os << (varies(decision) && choice.shortSequences.empty() ? "any other number of queries" : "any number of queries");
  if (!choice.shortSequences.empty())
    os << ", if " << describe(choice.shortSequences);
  os << "\n";
  printChoice(os, choice, decision);
  if (!choice.queryTiles.empty())
    os << "  tiles of queries: " << choice.queryTiles << "\n";
  printGrid(os, launch) << "\n";
  if (launch.workspace)
    os << "  workspace: " << launch.workspace->getText() << " bytes\n";
  if (decision.question.kind == KernelKind::Backward)
    os << "  dq: added up "
       << (choice.schedule.splitGradients == SplitGradients::None ? "in device memory, in any order"
                                                                  : "in registers, with the same bits in every launch")
       << "\n";
  if (!launch.sorted.empty())
    os << "  work tiles: sorted by their work, since " << launch.sorted << "\n";
  if (!choice.mask.empty())
    os << (decision.question.kind == KernelKind::Backward ? "  loops follow the mask: "
                                                          : "  loops over keys follow the mask: ")
       << choice.mask << "\n";
}

static std::string describeDecoding(const Launch &launch, const ScheduleDecision &decision) {
  std::string text;
  llvm::raw_string_ostream os(text);
  const ScheduleChoice &choice = decision.choices.front();
  os << "decisions for a decoding kernel: " << decision.why << "\nentry " << launch.kernel << ":\n";
  printRow(os, choice.row);
  os << "  schedule: " << choice.schedule.str() << "\n";
  for (auto [field, where] : choice.reasons)
    os << "  " << field << ": where " << where << "\n";
  printGrid(os, launch) << ", in clusters of " << launch.cluster[0]
                        << "\n  shared memory: " << launch.dynamicSharedMemory << " bytes\n";
  if (launch.workspace)
    os << "  workspace: " << launch.workspace->getText() << " bytes\n";
  return text;
}

std::string flashc::describeDecisions(const LoweredKernel &kernel) {
  std::string text;
  llvm::raw_string_ostream os(text);
  const ScheduleDecision &decision = kernel.decision;
  SmallVector<Launch, 2> launches = *Launch::getAll(*kernel.module);
  if (decision.question.kind == KernelKind::Decode)
    return describeDecoding(launches.front(), decision);
  if (decision.question.kind == KernelKind::Plain) {
    os << "entry " << launches.front().kernel << ": a kernel without tiles, of " << launches.front().block[0]
       << " threads a CTA; there is no schedule to choose\n";
    printGrid(os, launches.front()) << "\n";
    return text;
  }
  os << "decisions for " << decision.question.str() << ": " << decision.maskReason << "\n";
  if (!decision.why.empty())
    os << "a forward kernel that reads a cache: " << decision.why << "\n";
  // Entries are printed in the order in which a launch tests them: first the variants, last the entry for all other
  // launches. In the module that entry is the first one.
  for (auto [launch, choice] : llvm::zip(llvm::drop_begin(launches), decision.choices))
    printEntry(os, launch, choice, decision);
  printEntry(os, launches.front(), decision.choices.back(), decision);
  return text;
}
