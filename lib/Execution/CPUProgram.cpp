//===- CPUProgram.cpp - runs L0 and L1 on this machine's CPU ------------------------------------------------------===//

#include "flashc/Execution/CPUProgram.h"
#include "HostTarget.h"
#include "JITRuntime.h"
#include "flashc/Dialect/Flash/IR/Arguments.h"
#include "flashc/Pipelines/Pipelines.h"
#include "flashc/Target/PTX.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/PrettyStackTrace.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Target/TargetMachine.h"

using namespace mlir;
using namespace flashc;

namespace {

/// The layout of a function's results in the memory that the function's packed entry (getPackedName) fills.
struct ResultLayout {
  size_t size = 0;
  llvm::SmallVector<size_t> offsets;
};

/// Returns the function's name in the program. It is made of letters, and differs from every name of the C library,
/// because math ops call functions of that library.
std::string getInternalName(StringRef function) {
  return "flashc.function." + (llvm::all_of(function, llvm::isAlnum) ? function.str() : llvm::toHex(function));
}

/// Returns the name of a function's packed entry, `void packed(void **slots)`. Slot 0 points to memory for the results.
/// Slot 1 + i points to argument i: to the value of a scalar, or to the descriptor of a memref.
std::string getPackedName(StringRef function) { return "flashc.packed." + function.str(); }

void addPackedEntry(llvm::Module &module, StringRef name) {
  llvm::LLVMContext &context = module.getContext();
  llvm::Function *callee = module.getFunction("_mlir_ciface_" + name.str());
  llvm::IRBuilder<> builder(context);
  llvm::Type *pointer = builder.getPtrTy();
  auto *type = llvm::FunctionType::get(builder.getVoidTy(), {pointer}, /*isVarArg=*/false);
  auto *packed = llvm::Function::Create(type, llvm::Function::ExternalLinkage, getPackedName(name), module);
  builder.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", packed));
  auto loadSlot = [&](unsigned index) -> llvm::Value * {
    return builder.CreateLoad(pointer, builder.CreateConstGEP1_32(pointer, packed->getArg(0), index));
  };
  // If results are buffers, the C interface takes a pointer to them as its first argument. It returns a single scalar
  // by value.
  bool resultsByPointer = callee->getReturnType()->isVoidTy() && !module.getFunction(name)->getReturnType()->isVoidTy();
  llvm::SmallVector<llvm::Value *> arguments;
  for (llvm::Argument &argument : callee->args()) {
    llvm::Value *slot = loadSlot(argument.getArgNo() + (resultsByPointer ? 0 : 1));
    arguments.push_back(argument.getType()->isPointerTy() ? slot : builder.CreateLoad(argument.getType(), slot));
  }
  llvm::CallInst *call = builder.CreateCall(callee, arguments);
  if (!call->getType()->isVoidTy())
    builder.CreateStore(call, loadSlot(0));
  builder.CreateRetVoid();
}

ResultLayout getResultLayout(llvm::Module &module, StringRef name, unsigned resultCount) {
  llvm::Type *type = module.getFunction(name)->getReturnType();
  ResultLayout layout;
  if (resultCount == 0)
    return layout;
  layout.size = module.getDataLayout().getTypeAllocSize(type);
  if (resultCount == 1) {
    layout.offsets.push_back(0);
    return layout;
  }
  const llvm::StructLayout *fields = module.getDataLayout().getStructLayout(cast<llvm::StructType>(type));
  for (unsigned i = 0; i < resultCount; ++i)
    layout.offsets.push_back(fields->getElementOffset(i).getFixedValue());
  return layout;
}

/// Runs only passes that promote scalars to registers, simplify expressions, and hoist address arithmetic out of loops.
/// LLVM's full pipeline would take five times longer than the rest of a check, because a check runs many small programs
/// once.
void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager sccs;
  llvm::ModuleAnalysisManager modules;
  llvm::PassBuilder builder(&machine);
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(sccs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, sccs, modules);
  llvm::ModulePassManager pipeline;
  // By default, instcombine ends the process if one round of simplifications is not enough. With no-verify-fixpoint it
  // leaves the rest.
  llvm::cantFail(builder.parsePassPipeline(
      pipeline, "function(sroa,early-cse,instcombine<no-verify-fixpoint>,simplifycfg,loop-mssa(licm))"));
  pipeline.run(module, modules);
}

/// Makes a memref descriptor of the C interface (allocated, aligned, offset, sizes, strides) as an array of 64-bit
/// words.
llvm::SmallVector<int64_t> makeDescriptor(HostTensor &tensor) {
  auto address = reinterpret_cast<int64_t>(tensor.getBuffer());
  llvm::SmallVector<int64_t> words{address, address, tensor.getOffset()};
  llvm::append_range(words, tensor.getShape());
  llvm::append_range(words, tensor.getStrides());
  return words;
}

/// Copies the result that `descriptor` describes.
HostTensor copyResult(DType dtype, int64_t rank, const int64_t *descriptor) {
  ArrayRef<int64_t> shape(descriptor + 3, rank), strides(descriptor + 3 + rank, rank);
  auto *first = reinterpret_cast<char *>(descriptor[1]) + descriptor[2] * getByteSize(dtype);
  HostTensor result(dtype, shape);
  result.copyFrom(HostTensor::view(dtype, shape, strides, first));
  return result;
}

} // namespace

struct CPUProgram::Impl {
  std::unique_ptr<llvm::orc::LLJIT> jit;
  llvm::StringMap<ResultLayout> layouts;
};

CPUProgram::CPUProgram(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}
CPUProgram::CPUProgram(CPUProgram &&) = default;
CPUProgram &CPUProgram::operator=(CPUProgram &&) = default;
CPUProgram::~CPUProgram() = default;

/// Reports an llvm::Error as a diagnostic at `op`.
static InFlightDiagnostic report(Operation *op, llvm::Error error) {
  return op->emitError("running on the CPU failed: ") << llvm::toString(std::move(error));
}

/// Registers this machine's back end once, after NVPTX (registerNVPTX gives the reason).
static void registerNativeTarget() {
  static const bool isRegistered = [] {
    registerNVPTX();
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    return true;
  }();
  (void)isRegistered;
}

static llvm::Expected<std::unique_ptr<llvm::orc::LLJIT>> createJIT(llvm::orc::JITTargetMachineBuilder builder) {
  auto jit = llvm::orc::LLJITBuilder().setJITTargetMachineBuilder(std::move(builder)).create();
  if (!jit)
    return jit.takeError();
  llvm::orc::JITDylib &library = (*jit)->getMainJITDylib();
  if (llvm::Error error = library.define(llvm::orc::absoluteSymbols(getJITRuntimeSymbols(**jit))))
    return error;
  char prefix = (*jit)->getDataLayout().getGlobalPrefix();
  auto process = llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(prefix);
  if (!process)
    return process.takeError();
  library.addGenerator(std::move(*process));
  // If a program has loaded libflashc.so by dlopen with RTLD_LOCAL, a search in the process does not find the functions
  // of libm. So libm is searched too.
  auto math = llvm::orc::DynamicLibrarySearchGenerator::Load("libm.so.6", prefix);
  if (!math)
    return math.takeError();
  library.addGenerator(std::move(*math));
  return jit;
}

static llvm::Error addToJIT(llvm::orc::LLJIT &jit, llvm::orc::JITTargetMachineBuilder builder,
                            std::unique_ptr<llvm::Module> module, std::unique_ptr<llvm::LLVMContext> context) {
  auto machine = builder.createTargetMachine();
  if (!machine)
    return machine.takeError();
  optimize(*module, **machine);
  return jit.addIRModule(llvm::orc::ThreadSafeModule(std::move(module), std::move(context)));
}

/// Emits a diagnostic and fails at the first op that has no lowering for the CPU.
static LogicalResult checkLowered(ModuleOp module) {
  WalkResult result = module.walk<WalkOrder::PreOrder>([](Operation *op) {
    if (isa<LLVM::LLVMDialect, BuiltinDialect>(op->getDialect()))
      return WalkResult::advance();
    op->emitError("cannot run '") << op->getName() << "' on the CPU";
    return WalkResult::interrupt();
  });
  return failure(result.wasInterrupted());
}

/// Drops argument names, because the translation to LLVM IR would warn of them. Marks tensors as read-only, so that the
/// program copies a tensor before it changes it.
static void prepareArguments(ModuleOp module) {
  for (auto function : module.getOps<func::FuncOp>())
    for (auto [number, type] : llvm::enumerate(function.getArgumentTypes())) {
      function.removeArgAttr(number, flash::kArgumentNameAttr);
      if (isa<TensorType>(type) && !function.isExternal())
        function.setArgAttr(number, bufferization::BufferizationDialect::kWritableAttrName,
                            BoolAttr::get(module.getContext(), false));
    }
}

static LogicalResult renameFunctions(ModuleOp module) {
  for (auto function : llvm::to_vector(module.getOps<func::FuncOp>()))
    if (!function.isExternal() && failed(SymbolTable(module).rename(function, getInternalName(function.getName()))))
      return function.emitError("cannot rename this function");
  return success();
}

FailureOr<CPUProgram> CPUProgram::compile(ModuleOp module) {
  llvm::SmallVector<std::pair<std::string, unsigned>> functions;
  for (auto function : module.getOps<func::FuncOp>()) {
    if (!function.isExternal())
      functions.emplace_back(function.getName().str(), function.getNumResults());
    else if (!function.symbolKnownUseEmpty(module))
      return function.emitError("cannot run a program that calls @") << function.getName() << ", which has no body";
  }

  OwningOpRef<ModuleOp> lowered = module.clone();
  if (failed(renameFunctions(*lowered)))
    return failure();
  prepareArguments(*lowered);
  PassManager pm(module.getContext());
  pm.enableVerifier(false); // verify runs once after all passes instead
  buildCPULoweringPipeline(pm);
  if (failed(pm.run(*lowered)) || failed(verify(*lowered)) || failed(checkLowered(*lowered)))
    return failure();

  registerBuiltinDialectTranslation(*module.getContext());
  registerLLVMDialectTranslation(*module.getContext());
  auto context = std::make_unique<llvm::LLVMContext>();
  std::unique_ptr<llvm::Module> llvmModule = translateModuleToLLVMIR(*lowered, *context);
  if (!llvmModule)
    return module.emitError("running on the CPU failed: no translation to LLVM IR");

  registerNativeTarget();
  llvm::Expected<llvm::orc::JITTargetMachineBuilder> builder = getHostTarget();
  if (!builder)
    return report(module, builder.takeError());
  auto jit = createJIT(*builder);
  if (!jit)
    return report(module, jit.takeError());
  llvmModule->setDataLayout((*jit)->getDataLayout());
  llvmModule->setTargetTriple((*jit)->getTargetTriple());

  auto impl = std::make_unique<Impl>();
  for (auto &[name, resultCount] : functions) {
    impl->layouts[name] = getResultLayout(*llvmModule, getInternalName(name), resultCount);
    addPackedEntry(*llvmModule, getInternalName(name));
  }
  if (llvm::Error error = addToJIT(**jit, std::move(*builder), std::move(llvmModule), std::move(context)))
    return report(module, std::move(error));
  impl->jit = std::move(*jit);
  return CPUProgram(std::move(impl));
}

FailureOr<llvm::SmallVector<HostTensor>> CPUProgram::run(func::FuncOp function,
                                                         llvm::MutableArrayRef<HostTensor> arguments) {
  auto address = impl->jit->lookup(getPackedName(getInternalName(function.getName())));
  if (!address)
    return report(function, address.takeError());

  const ResultLayout &layout = impl->layouts[function.getName()];
  std::vector<char> resultMemory(layout.size + sizeof(int64_t));
  llvm::SmallVector<llvm::SmallVector<int64_t>> descriptors;
  llvm::SmallVector<void *> slots{resultMemory.data()};
  descriptors.reserve(arguments.size());
  for (auto [type, argument] : llvm::zip(function.getArgumentTypes(), arguments)) {
    void *slot = argument.getBuffer();
    if (isa<ShapedType>(type))
      slot = descriptors.emplace_back(makeDescriptor(argument)).data();
    slots.push_back(slot);
  }
  std::string message;
  // If an access without a guard (docs/checking.md) crashes the process, the signal's handler prints this text.
  std::string place;
  llvm::raw_string_ostream(place) << function.getLoc();
  llvm::PrettyStackTraceFormat crash(
      "running @%s of %s on the CPU: does a slice of it, or an affine or linalg op, exceed its array?",
      function.getName().str().c_str(), place.c_str());
  if (!callJITFunction(address->toPtr<void (*)(void **)>(), slots.data(), message))
    return function.emitError("running on the CPU failed: ") << message;

  llvm::SmallVector<HostTensor> results;
  // The caller has to free the buffers of results. Several results may share one buffer, so the buffers are a set. A
  // buffer that is an argument's is not freed.
  llvm::SmallPtrSet<void *, 4> buffers;
  for (auto [type, offset] : llvm::zip(function.getResultTypes(), layout.offsets)) {
    const char *data = resultMemory.data() + offset;
    if (auto shaped = dyn_cast<ShapedType>(type)) {
      auto *descriptor = reinterpret_cast<const int64_t *>(data);
      results.push_back(copyResult(*flashc::getDType(shaped.getElementType()), shaped.getRank(), descriptor));
      buffers.insert(reinterpret_cast<void *>(descriptor[0]));
      continue;
    }
    HostTensor &scalar = results.emplace_back(*flashc::getDType(type), ArrayRef<int64_t>());
    std::memcpy(scalar.getBuffer(), data, getByteSize(scalar.getDType()));
  }
  for (HostTensor &argument : arguments)
    buffers.erase(argument.getBuffer());
  for (void *buffer : buffers)
    std::free(buffer);
  return results;
}
