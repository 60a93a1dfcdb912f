//===- Launch.cpp - the kernels of a launch, while passes make them -----------------------------------------------===//

#include "flashc/Launch/Launch.h"

using namespace mlir;
using namespace flashc;

static Attribute toAttribute(Builder &b, const llvm::json::Value &value) {
  if (const llvm::json::Object *object = value.getAsObject()) {
    NamedAttrList entries;
    for (const auto &[key, element] : *object)
      entries.set(StringRef(key), toAttribute(b, element));
    return entries.getDictionary(b.getContext());
  }
  if (const llvm::json::Array *array = value.getAsArray())
    return b.getArrayAttr(llvm::map_to_vector(*array, [&](const auto &element) { return toAttribute(b, element); }));
  if (std::optional<StringRef> text = value.getAsString())
    return b.getStringAttr(*text);
  if (std::optional<bool> boolean = value.getAsBoolean())
    return b.getBoolAttr(*boolean);
  return b.getI64IntegerAttr(*value.getAsInteger()); // a manifest has integers only
}

/// Turns an attribute back into JSON. Returns null for attributes that toAttribute does not make.
static llvm::json::Value fromAttribute(Attribute attribute) {
  if (auto dictionary = dyn_cast<DictionaryAttr>(attribute)) {
    llvm::json::Object object;
    for (NamedAttribute entry : dictionary)
      object[entry.getName().str()] = fromAttribute(entry.getValue());
    return object;
  }
  if (auto array = dyn_cast<ArrayAttr>(attribute))
    return llvm::json::Array(llvm::map_range(array, fromAttribute));
  if (auto boolean = dyn_cast<BoolAttr>(attribute))
    return boolean.getValue();
  if (auto integer = dyn_cast<IntegerAttr>(attribute))
    return integer.getInt();
  if (auto text = dyn_cast<StringAttr>(attribute))
    return text.getValue().str();
  return nullptr;
}

FailureOr<Launch> Launch::get(Operation *kernel) {
  Launch launch;
  llvm::json::Value value = fromAttribute(kernel->getAttr(kAttrName));
  llvm::Expected<Manifest> manifest = Manifest::fromJSON(value);
  if (!manifest)
    return kernel->emitOpError() << "'" << kAttrName << "': " << llvm::toString(manifest.takeError());
  static_cast<Manifest &>(launch) = std::move(*manifest);
  const llvm::json::Object &object = *value.getAsObject();
  launch.mayOverlap = object.getBoolean("overlap").value_or(false);
  const llvm::json::Array *workTiles = object.getArray("work_tiles");
  for (size_t dim = 0; workTiles && dim < 3; ++dim) {
    std::optional<StringRef> text = dim < workTiles->size() ? (*workTiles)[dim].getAsString() : std::nullopt;
    llvm::Expected<GridFormula> formula = GridFormula::parse(text.value_or(""));
    if (!formula)
      return kernel->emitOpError() << "'" << kAttrName << "': work_tiles: " << llvm::toString(formula.takeError());
    if (dim == 0)
      launch.workTiles.emplace();
    (*launch.workTiles)[dim] = *formula;
  }
  return launch;
}

FailureOr<SmallVector<Launch, 2>> Launch::getAll(Operation *root) {
  SmallVector<Launch, 2> launches;
  WalkResult result = root->walk([&](Operation *op) {
    if (!isOn(op))
      return WalkResult::advance();
    FailureOr<Launch> launch = get(op);
    if (failed(launch))
      return WalkResult::interrupt();
    launches.push_back(std::move(*launch));
    return WalkResult::advance();
  });
  return result.wasInterrupted() ? FailureOr<SmallVector<Launch, 2>>() : std::move(launches);
}

void Launch::set(Operation *kernel) const {
  llvm::json::Object object = Manifest::toJSON();
  if (mayOverlap)
    object["overlap"] = true;
  if (workTiles)
    object["work_tiles"] =
        llvm::json::Array(llvm::map_range(*workTiles, [](const GridFormula &formula) { return formula.getText(); }));
  Builder b(kernel->getContext());
  kernel->setAttr(kAttrName, toAttribute(b, std::move(object)));
}

FailureOr<SmallVector<gpu::GPUFuncOp>> Launch::findKernels(gpu::GPUFuncOp main) const {
  SmallVector<gpu::GPUFuncOp> kernels;
  for (const ManifestKernel *info : getKernels()) {
    auto name = StringAttr::get(main.getContext(), info->kernel);
    kernels.push_back(SymbolTable::lookupNearestSymbolFrom<gpu::GPUFuncOp>(main->getParentOp(), name));
    if (!kernels.back())
      return main->emitOpError() << "expected a kernel '" << info->kernel << "' that its launch names";
  }
  return kernels;
}

gpu::GPUFuncOp flashc::createPlainKernel(OpBuilder &b, Location loc, StringRef name, int64_t threads) {
  auto kernel = gpu::GPUFuncOp::create(b, loc, name, b.getFunctionType({}, {}));
  kernel->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  kernel->setAttr("flashc.threads", b.getI32IntegerAttr(threads));
  return kernel;
}
