//===- KernelCache.cpp - compiles each kernel once ----------------------------------------------------------------===//

#include "flashc/Compiler/KernelCache.h"
#include "flashc/Compiler/LoweredKernel.h"
#include "flashc/Runtime/BuildID.h"
#include "flashc/Runtime/Manifest.h"
#include "flashc/Support/PTXText.h"

using namespace mlir;
using namespace flashc;

/// Returns everything that determines the result of a compilation, one item per line. The table of schedules may have
/// several lines; its length precedes it.
static std::string getKey(const PipelineOptions &pipeline, StringRef function, StringRef text) {
  std::string key;
  llvm::raw_string_ostream(key) << pipeline.target << "\n"
                                << pipeline.algorithm << "\n"
                                << pipeline.schedule << "\n"
                                << pipeline.qTile << "\n"
                                << pipeline.kvTile << "\n"
                                << pipeline.scheduleTable.size() << "\n"
                                << pipeline.scheduleTable << "\n"
                                << function << "\n"
                                << text;
  return key;
}

static CompileOptions getOptions(const PipelineOptions &pipeline) {
  CompileOptions options;
  options.pipeline = pipeline;
  return options;
}

//===--------------------------------------------------------------------------------------------------------------===//
// CachedKernel
//===--------------------------------------------------------------------------------------------------------------===//

/// A parsed program and the session that owns its context. Only one thread at a time uses it.
struct KernelCache::Program {
  std::unique_ptr<Session> session;
  OwningOpRef<ModuleOp> module;
};

/// A kernel at L2 and the session that owns its context.
struct CachedKernel::Lowered {
  std::unique_ptr<Session> session;
  LoweredKernel kernel;
};

CachedKernel::CachedKernel(KernelCache &cache, std::string source, PipelineOptions pipeline, Author author,
                           KernelDescription description, std::unique_ptr<Lowered> lowered)
    : source(std::move(source)), pipeline(std::move(pipeline)), author(author), description(std::move(description)),
      cache(cache), lowered(std::move(lowered)), isCompiled(this->lowered != nullptr) {}

CachedKernel::~CachedKernel() = default;

llvm::Expected<std::unique_ptr<CachedKernel::Lowered>> CachedKernel::takeLowered() const {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (lowered)
      return std::move(lowered);
  }
  cache.numCompilations += !isCompiled.exchange(true);
  auto session = std::make_unique<Session>(cache.registry, author);
  FailureOr<OwningOpRef<ModuleOp>> module = session->parse(source);
  if (failed(module))
    return session->takeError();
  return cache.lower({std::move(session), std::move(*module)}, pipeline);
}

llvm::Expected<CachedKernel::Text> CachedKernel::findOrCompileEntry(size_t number) const {
  std::string key = "entry " + std::to_string(number) + "\n" + getKey(pipeline, /*function=*/"", source);
  if (auto value = cache.findOnDisk(key, 1))
    return std::make_shared<const std::string>(std::move(value->front()));
  llvm::Expected<std::unique_ptr<Lowered>> taken = takeLowered();
  if (!taken)
    return taken.takeError();
  ++cache.numEntries;
  FailureOr<std::string> ptx = compileEntry((*taken)->kernel, number, getOptions(pipeline));
  if (failed(ptx))
    return (*taken)->session->takeError();
  cache.storeOnDisk(key, {*ptx});
  return std::make_shared<const std::string>(std::move(*ptx));
}

llvm::Expected<CachedKernel::Text> CachedKernel::getSharedEntry(size_t number) const {
  return texts.get(std::to_string(number), [&] { return findOrCompileEntry(number); });
}

llvm::Expected<std::string> CachedKernel::getEntry(size_t number) const {
  llvm::Expected<Text> text = getSharedEntry(number);
  return text ? llvm::Expected<std::string>(**text) : text.takeError();
}

llvm::Expected<CachedKernel::Text> CachedKernel::joinEntries() const {
  if (pipeline.target == kCPUTarget)
    return std::make_shared<const std::string>();
  size_t count = llvm::cantFail(Manifest::parse(description.manifest)).getNumEntries();
  // `get` of a future rethrows what its thread throws. The destructor of a future waits for its thread.
  std::vector<std::future<llvm::Expected<Text>>> others;
  for (size_t number = 0; number + 1 < count; ++number)
    others.push_back(std::async(std::launch::async, [this, number] { return getSharedEntry(number); }));
  llvm::Expected<Text> last = getSharedEntry(count - 1);
  llvm::Error error = last ? llvm::Error::success() : last.takeError();
  // The entry for all other launches has the last number, but comes first in the joined PTX.
  std::vector<std::string> parts;
  if (!error)
    parts.push_back(**last);
  for (auto &other : others) {
    llvm::Expected<Text> text = other.get();
    if (text)
      parts.push_back(**text);
    else
      error = llvm::joinErrors(std::move(error), text.takeError());
  }
  if (error)
    return std::move(error);
  return std::make_shared<const std::string>(joinPTX(parts));
}

llvm::Expected<const char *> CachedKernel::getPTX() const {
  llvm::Expected<Text> text = texts.get("all", [&] { return joinEntries(); });
  return text ? llvm::Expected<const char *>((*text)->c_str()) : text.takeError();
}

//===--------------------------------------------------------------------------------------------------------------===//
// KernelCache
//===--------------------------------------------------------------------------------------------------------------===//

/// Whether the build of this compiler is known. If it is not, the cache on disk is not used, because another build may
/// compile differently.
static bool isKnownBuild() { return !getBuildID().empty(); }

std::optional<std::vector<std::string>> KernelCache::findOnDisk(const std::string &key, size_t count) {
  if (!disk || !isKnownBuild())
    return std::nullopt;
  std::optional<std::vector<std::string>> value = disk->find(getBuildID() + "\n" + key);
  return value && value->size() == count ? std::move(value) : std::nullopt;
}

void KernelCache::storeOnDisk(const std::string &key, ArrayRef<StringRef> value) {
  if (disk && isKnownBuild())
    disk->store(getBuildID() + "\n" + key, value);
}

llvm::Expected<std::unique_ptr<CachedKernel::Lowered>> KernelCache::lower(Program program,
                                                                          const PipelineOptions &pipeline) {
  FailureOr<LoweredKernel> kernel = lowerToKernel(*program.module, getOptions(pipeline), KernelLevel::Expanded);
  program.module = nullptr; // frees the module now; the session keeps its context
  if (failed(kernel))
    return program.session->takeError();
  return std::unique_ptr<CachedKernel::Lowered>(
      new CachedKernel::Lowered{std::move(program.session), std::move(*kernel)});
}

llvm::Expected<KernelCache::KernelPtr> KernelCache::findOrLower(Program program, std::string source,
                                                                const KernelRequest &request) {
  const PipelineOptions &pipeline = request.pipeline;
  auto make = [&](KernelDescription description, std::unique_ptr<CachedKernel::Lowered> lowered = nullptr) {
    return KernelPtr(new CachedKernel(*this, std::move(source), pipeline, request.author, std::move(description),
                                      std::move(lowered)));
  };
  if (pipeline.target == kCPUTarget) {
    ++numCompilations;
    FailureOr<CompiledKernel> kernel = compileForCPU(*program.module, pipeline);
    return failed(kernel) ? llvm::Expected<KernelPtr>(program.session->takeError()) : make(std::move(*kernel));
  }
  std::string key = "kernel\n" + getKey(pipeline, /*function=*/"", source);
  if (auto value = findOnDisk(key, 3)) {
    ++numDiskHits;
    return make({std::move((*value)[0]), std::move((*value)[1]), std::move((*value)[2])});
  }
  ++numCompilations;
  auto lowered = lower(std::move(program), pipeline);
  if (!lowered)
    return lowered.takeError();
  FailureOr<KernelDescription> description = describeKernel((*lowered)->kernel);
  if (failed(description))
    return (*lowered)->session->takeError();
  bool hasVariants = (*lowered)->kernel.decision.choices.size() > 1;
  KernelPtr kernel = make(*description, std::move(*lowered));
  // Without variants, the only entry is compiled now, so that an error in its code is reported at once.
  if (!hasVariants)
    if (auto text = kernel->getSharedEntry(0); !text)
      return text.takeError();
  storeOnDisk(key, {description->manifest, description->schedule, description->decisions});
  return kernel;
}

llvm::Expected<std::shared_ptr<const CachedKernel>> KernelCache::getParsed(const KernelRequest &request) {
  auto session = std::make_unique<Session>(registry, request.author);
  FailureOr<OwningOpRef<ModuleOp>> module = session->parse(request.text);
  if (failed(module) || failed(keepFunction(**module, request.function)))
    return session->takeError();
  std::string source;
  llvm::raw_string_ostream os(source);
  OpPrintingFlags flags = OpPrintingFlags().useLocalScope();
  if (request.pipeline.target == kCPUTarget)
    flags.enableDebugInfo();
  (*module)->print(os, flags);
  os << "\n";
  bool wasThere;
  llvm::Expected<KernelPtr> kernel = kernels.get(
      getKey(request.pipeline, /*function=*/"", source),
      [&] { return findOrLower({std::move(session), std::move(*module)}, source, request); }, &wasThere);
  numMemoryHits += kernel && wasThere;
  return kernel;
}

llvm::Expected<std::shared_ptr<const CachedKernel>> KernelCache::get(const KernelRequest &request) {
  bool wasThere;
  llvm::Expected<KernelPtr> kernel = requests.get(
      getKey(request.pipeline, request.function, request.text), [&] { return getParsed(request); }, &wasThere);
  numMemoryHits += kernel && wasThere;
  return kernel;
}
