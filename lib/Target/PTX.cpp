//===- PTX.cpp - gpu.module to LLVM IR and PTX --------------------------------------------------------------------===//

#include "flashc/Target/PTX.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/GPU/GPUToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

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

/// The first PTX version with everything that the lowering emits for sm_90a (redux, wgmma, setmaxnreg: PTX ISA 8.0).
static constexpr llvm::StringLiteral kPtxFeatures = "+ptx80";

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
  return std::unique_ptr<llvm::TargetMachine>(backend->createTargetMachine(
      triple, target, kPtxFeatures, llvm::TargetOptions(), llvm::Reloc::Static, std::nullopt,
      llvm::CodeGenOptLevel::Aggressive));
}

/// The only gpu.module, or null with an error.
static gpu::GPUModuleOp getKernelModule(ModuleOp module) {
  auto kernels = llvm::to_vector(module.getOps<gpu::GPUModuleOp>());
  if (kernels.size() == 1)
    return kernels.front();
  module.emitError() << "expected one gpu.module, got " << kernels.size();
  return nullptr;
}

namespace {

/// A module's kernel as LLVM IR, with the machine that it is for. `llvmModule` is null after an error.
struct TranslatedKernel {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<llvm::Module> llvmModule;

  TranslatedKernel(ModuleOp module, StringRef target);
};

} // namespace

TranslatedKernel::TranslatedKernel(ModuleOp module, StringRef target) : machine(createTargetMachine(module, target)) {
  gpu::GPUModuleOp kernels = machine ? getKernelModule(module) : nullptr;
  if (!kernels)
    return;
  llvmModule = translateModuleToLLVMIR(kernels, context, kernels.getName());
  if (!llvmModule) {
    kernels.emitError() << "expected a gpu.module in the LLVM dialect";
    return;
  }
  llvmModule->setTargetTriple(machine->getTargetTriple());
  llvmModule->setDataLayout(machine->createDataLayout());
}

FailureOr<std::string> flashc::translateToLLVMIR(ModuleOp module, StringRef target) {
  TranslatedKernel kernel(module, target);
  if (!kernel.llvmModule)
    return failure();
  std::string text;
  llvm::raw_string_ostream stream(text);
  kernel.llvmModule->print(stream, nullptr);
  return text;
}

FailureOr<std::string> flashc::translateToPTX(ModuleOp module, StringRef target) {
  TranslatedKernel kernel(module, target);
  if (!kernel.llvmModule)
    return failure();
  llvm::SmallString<0> text;
  llvm::raw_svector_ostream stream(text);
  llvm::legacy::PassManager passes;
  if (kernel.machine->addPassesToEmitFile(passes, stream, nullptr, llvm::CodeGenFileType::AssemblyFile)) {
    module.emitError() << "expected an NVPTX back end that emits PTX";
    return failure();
  }
  passes.run(*kernel.llvmModule);
  return text.str().str();
}
