//===- HostTarget.cpp - the processor that programs on the CPU are compiled for -----------------------------------===//

#include "HostTarget.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Process.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/X86TargetParser.h"

using namespace flashc;
using llvm::orc::JITTargetMachineBuilder;

static constexpr llvm::StringRef kLevels[] = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};

/// The first feature of `level` that this processor lacks, or an empty string.
static llvm::StringRef findMissingFeature(llvm::StringRef level) {
  llvm::StringMap<bool> present = llvm::sys::getHostCPUFeatures();
  llvm::SmallVector<llvm::StringRef> needed;
  llvm::X86::getFeaturesForCPU(level, needed);
  // A feature that is no key of `present` (such as x87) is not missing.
  auto isMissing = [&](llvm::StringRef feature) { return present.contains(feature) && !present.lookup(feature); };
  const auto *missing = llvm::find_if(needed, isMissing);
  return missing == needed.end() ? "" : *missing;
}

static llvm::Expected<JITTargetMachineBuilder> getProcessor() {
  std::string level = llvm::sys::Process::GetEnv("FLASHC_CPU").value_or("native");
  if (level == "native")
    return JITTargetMachineBuilder::detectHost();
  if (!llvm::is_contained(kLevels, level))
    return llvm::createStringError("expected FLASHC_CPU to be native, " +
                                   llvm::join(std::begin(kLevels), std::end(kLevels), ", ") + ", got '" + level + "'");
  if (llvm::StringRef missing = findMissingFeature(level); !missing.empty())
    return llvm::createStringError("expected FLASHC_CPU to be a level of this processor, got " + level +
                                   ", which needs " + missing);
  JITTargetMachineBuilder builder{llvm::Triple(llvm::sys::getProcessTriple())};
  builder.setCPU(level);
  return builder;
}

llvm::Expected<JITTargetMachineBuilder> flashc::getHostTarget() {
  std::string level = llvm::sys::Process::GetEnv("FLASHC_CPU_OPT_LEVEL").value_or("1");
  if (level != "0" && level != "1")
    return llvm::createStringError("expected FLASHC_CPU_OPT_LEVEL to be 0 or 1, got '" + level + "'");
  llvm::Expected<JITTargetMachineBuilder> builder = getProcessor();
  if (builder)
    builder->setCodeGenOptLevel(level == "0" ? llvm::CodeGenOptLevel::None : llvm::CodeGenOptLevel::Less);
  return builder;
}
