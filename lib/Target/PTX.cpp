//===- PTX.cpp - gpu.module to LLVM IR and PTX --------------------------------------------------------------------===//

#include "flashc/Target/PTX.h"
#include "flashc/Support/PTXText.h"
#include "flashc/Target/GPUTarget.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/OptBisect.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

#include <future>

using namespace mlir;

extern "C" {
void LLVMInitializeNVPTXTarget();
void LLVMInitializeNVPTXTargetInfo();
void LLVMInitializeNVPTXTargetMC();
void LLVMInitializeNVPTXAsmPrinter();
}

void flashc::registerTargetTranslations(DialectRegistry &registry) {
  registerBuiltinDialectTranslation(registry);
  registerGPUDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  registerNVVMDialectTranslation(registry);
}

void flashc::registerNVPTX() {
  static const bool isRegistered = [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    return true;
  }();
  (void)isRegistered;
}

static std::unique_ptr<llvm::TargetMachine> createTargetMachine(Operation *op, StringRef target) {
  flashc::registerNVPTX();
  llvm::Triple triple("nvptx64-nvidia-cuda");
  std::string error;
  const llvm::Target *backend = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!backend) {
    op->emitError() << "expected an NVPTX back end: " << error;
    return nullptr;
  }
  return std::unique_ptr<llvm::TargetMachine>(
      backend->createTargetMachine(triple, target, flashc::GPUTarget::getFeature(op), llvm::TargetOptions(),
                                   llvm::Reloc::Static, std::nullopt, llvm::CodeGenOptLevel::Aggressive));
}

/// Returns the only gpu.module, or null after an error.
static gpu::GPUModuleOp getKernelModule(ModuleOp module) {
  auto kernels = llvm::to_vector(module.getOps<gpu::GPUModuleOp>());
  if (kernels.size() == 1)
    return kernels.front();
  module.emitError() << "expected one gpu.module, got " << kernels.size();
  return nullptr;
}

/// Whether an instruction counts as a sum here: an integer sum, an integer product, or an address computation.
static bool isSum(const llvm::Instruction &instruction) {
  switch (instruction.getOpcode()) {
  case llvm::Instruction::Add:
  case llvm::Instruction::Sub:
  case llvm::Instruction::Mul:
  case llvm::Instruction::Shl:
  case llvm::Instruction::Or:
  case llvm::Instruction::GetElementPtr:
    return true;
  default:
    return false;
  }
}

/// Returns two numbers: the most sums that a block of `module` has, and the most sums that form a chain in a block. In
/// a chain each sum uses the one before it.
static std::pair<int64_t, int64_t> countSums(const llvm::Module &module) {
  int64_t most = 0, deepest = 0;
  llvm::DenseMap<const llvm::Value *, int64_t> depths;
  for (const llvm::Function &function : module)
    for (const llvm::BasicBlock &block : function) {
      depths.clear();
      for (const llvm::Instruction &instruction : llvm::make_filter_range(block, isSum)) {
        int64_t depth = 0;
        for (const llvm::Value *operand : instruction.operand_values())
          depth = std::max(depth, depths.lookup(operand));
        depths[&instruction] = depth + 1;
        deepest = std::max(deepest, depth + 1);
      }
      most = std::max<int64_t>(most, depths.size());
    }
  return {most, deepest};
}

namespace {

/// Skips LLVM passes whose time grows with the square of the size of a block.
///
/// Straight-line strength reduction (slsr) subtracts sums from each other as expressions. For a mask of several
/// remainders, which has up to 2500 sums in a block, the pass takes 6 s of the 6.5 s in which the kernel is compiled,
/// and saves one instruction in a hundred. So it is skipped for blocks with that many sums. It still runs for dilated
/// windows, which have up to 440 sums, and for kernels without remainders, which have a hundred.
///
/// Reassociation (nary-reassociate) reads each sum as an expression of all others. For chains of hundreds of sums
/// (other kernels have chains of 31), and for large masks and scores in a loop, this pass takes 20 s, and so does
/// strength reduction. So both passes are skipped for such code.
class BackEndGate : public llvm::OptPassGate {
public:
  explicit BackEndGate(const llvm::Module &module) {
    auto [sums, depth] = countSums(module);
    auto isMarked = [](const llvm::Function &function) { return function.hasFnAttribute(flashc::kLongCodeAttrName); };
    isDeep = depth > kMostDepth || llvm::any_of(module, isMarked);
    isLong = isDeep || sums > kMostSums;
  }
  bool isEnabled() const override { return isLong; }
  bool shouldRunPass(StringRef pass, StringRef) const override {
    return pass != "slsr" && !(isDeep && pass == "nary-reassociate");
  }

private:
  static constexpr int64_t kMostSums = 448, kMostDepth = 64;
  bool isLong, isDeep;
};

/// A gpu.module as LLVM IR, with its target machine. `llvmModule` is null after an error.
struct TranslatedModule {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<llvm::Module> llvmModule;

  TranslatedModule(gpu::GPUModuleOp kernels, StringRef target);
  /// Returns the PTX. Empty if the back end makes none. Uses no other object, so it may run on any thread.
  std::string emit();
};

} // namespace

TranslatedModule::TranslatedModule(gpu::GPUModuleOp kernels, StringRef target)
    : machine(createTargetMachine(kernels, target)) {
  if (!machine)
    return;
  llvmModule = translateModuleToLLVMIR(kernels, context, kernels.getName());
  if (!llvmModule) {
    kernels.emitError() << "expected a gpu.module in the LLVM dialect";
    return;
  }
  llvmModule->setTargetTriple(machine->getTargetTriple());
  llvmModule->setDataLayout(machine->createDataLayout());
}

std::string TranslatedModule::emit() {
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  BackEndGate gate(*llvmModule);
  context.setOptPassGate(gate);
  auto reset = llvm::make_scope_exit([&] { context.setOptPassGate(llvm::getGlobalPassGate()); });
  llvm::legacy::PassManager passes;
  if (machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile))
    return "";
  passes.run(*llvmModule);
  return text.str().str();
}

FailureOr<std::string> flashc::translateToLLVMIR(ModuleOp module, StringRef target) {
  gpu::GPUModuleOp kernels = getKernelModule(module);
  if (!kernels)
    return failure();
  TranslatedModule translated(kernels, target);
  if (!translated.llvmModule)
    return failure();
  std::string text;
  llvm::raw_string_ostream stream(text);
  translated.llvmModule->print(stream, nullptr);
  return text;
}

//===--------------------------------------------------------------------------------------------------------------===//
// PTX
//===--------------------------------------------------------------------------------------------------------------===//

/// Returns a module for each kernel of `kernels`, in order. Each module also has the symbols that its kernel uses.
static SmallVector<OwningOpRef<gpu::GPUModuleOp>, 2> splitKernels(gpu::GPUModuleOp kernels) {
  SmallVector<OwningOpRef<gpu::GPUModuleOp>, 2> parts;
  for (auto kernel : kernels.getOps<LLVM::LLVMFuncOp>()) {
    if (kernel.isExternal())
      continue;
    gpu::GPUModuleOp part = cast<gpu::GPUModuleOp>(kernels->cloneWithoutRegions());
    OpBuilder b = OpBuilder::atBlockBegin(&part->getRegion(0).emplaceBlock());
    for (Operation &op : *kernels.getBody())
      if (&op == kernel.getOperation() || !SymbolTable::symbolKnownUseEmpty(&op, kernel))
        b.clone(op);
    parts.push_back(part);
  }
  return parts;
}

FailureOr<std::string> flashc::translateToPTX(ModuleOp module, StringRef target) {
  gpu::GPUModuleOp kernels = getKernelModule(module);
  if (!kernels)
    return failure();
  // The back end takes most of the time: each kernel gets a thread, with its own context.
  std::vector<std::unique_ptr<TranslatedModule>> parts;
  for (OwningOpRef<gpu::GPUModuleOp> &part : splitKernels(kernels))
    if (!parts.emplace_back(std::make_unique<TranslatedModule>(*part, target))->llvmModule)
      return failure();
  std::vector<std::string> texts(parts.size());
  // `get` of a future rethrows what its thread throws. The destructor of a future waits for its thread.
  std::vector<std::future<std::string>> others;
  for (size_t index = 1; index < parts.size(); ++index)
    others.push_back(std::async(std::launch::async, [&parts, index] { return parts[index]->emit(); }));
  if (!parts.empty())
    texts.front() = parts.front()->emit();
  for (auto [index, other] : llvm::enumerate(others))
    texts[index + 1] = other.get();
  if (texts.empty() || llvm::is_contained(texts, ""))
    return module.emitError() << "expected kernels, and an NVPTX back end that emits PTX";
  return joinPTX(texts);
}
