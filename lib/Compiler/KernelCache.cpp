//===- KernelCache.cpp - compiles each kernel once ----------------------------------------------------------------===//

#include "flashc/Compiler/KernelCache.h"
#include "flashc/Compiler/Session.h"
#include "flashc/Runtime/BuildID.h"

using namespace mlir;
using namespace flashc;

/// Everything that decides what comes out, one a line; a table, which has several, after its length.
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

FailureOr<CompiledKernel> KernelCache::findOrCompile(ModuleOp module, const PipelineOptions &pipeline, StringRef key) {
  if (pipeline.target == kCPUTarget) {
    ++numCompilations;
    return compileForCPU(module, pipeline);
  }
  // Two builds may compile differently: without knowing which one this is, nothing on disk can be trusted.
  bool usesDisk = disk && !getBuildID().empty();
  std::string diskKey = "kernel\n" + getBuildID() + "\n" + key.str();
  if (usesDisk)
    if (std::optional<std::vector<std::string>> value = disk->find(diskKey); value && value->size() == 4) {
      ++numDiskHits;
      return CompiledKernel{std::move((*value)[0]), std::move((*value)[1]), std::move((*value)[2]),
                            std::move((*value)[3])};
    }
  ++numCompilations;
  CompileOptions options;
  options.pipeline = pipeline;
  FailureOr<CompiledKernel> kernel = compile(module, options);
  if (succeeded(kernel) && usesDisk)
    disk->store(diskKey, {kernel->ptx, kernel->manifest, kernel->schedule, kernel->decisions});
  return kernel;
}

llvm::Expected<std::shared_ptr<const CachedKernel>> KernelCache::getParsed(const KernelRequest &request) {
  Session session(registry);
  FailureOr<OwningOpRef<ModuleOp>> module = session.parse(request.text);
  if (failed(module) || failed(keepFunction(**module, request.function)))
    return session.takeError();
  std::string source;
  llvm::raw_string_ostream(source) << **module << "\n";
  std::string key = getKey(request.pipeline, /*function=*/"", source);
  bool wasThere;
  llvm::Expected<KernelPtr> kernel = kernels.get(
      key,
      [&]() -> llvm::Expected<KernelPtr> {
        FailureOr<CompiledKernel> compiled = findOrCompile(**module, request.pipeline, key);
        if (failed(compiled))
          return session.takeError();
        return std::make_shared<const CachedKernel>(CachedKernel{source, request.pipeline, std::move(*compiled)});
      },
      &wasThere);
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
