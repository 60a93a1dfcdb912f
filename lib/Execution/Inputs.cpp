//===- Inputs.cpp - what options say of random arguments, and their values ----------------------------------------===//

#include "flashc/Execution/Inputs.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <random>

using namespace mlir;
using namespace flashc;

//===--------------------------------------------------------------------------------------------------------------===//
// Options
//===--------------------------------------------------------------------------------------------------------------===//

static bool parseExtent(StringRef text, int64_t &extent) {
  return !text.getAsInteger(10, extent) && extent > 0 && extent <= kMaxExtent;
}

std::optional<std::string> flashc::parseDims(StringRef text, InputOptions &options) {
  for (StringRef item : llvm::split(text, ',')) {
    auto [name, value] = item.split('=');
    int64_t extent;
    if (!llvm::is_contained({"B", "Hq", "Hk", "Nq", "Nk"}, name))
      return ("expected a dimension among B, Hq, Hk, Nq, Nk, got '" + name + "'").str();
    if (!parseExtent(value, extent))
      return ("expected an extent from 1 to " + llvm::Twine(kMaxExtent) + " for " + name + ", got '" + value + "'")
          .str();
    options.dims[name.str()] = extent;
  }
  return std::nullopt;
}

std::optional<std::string> flashc::parseShapes(StringRef text, InputOptions &options) {
  for (StringRef item : llvm::split(text, ',')) {
    auto [name, value] = item.split('=');
    SmallVector<int64_t> shape;
    for (StringRef part : llvm::split(value, 'x')) {
      int64_t extent;
      if (name.empty() || !parseExtent(part, extent))
        return ("expected <argument>=<extent>x<extent>..., got '" + item + "'").str();
      shape.push_back(extent);
    }
    options.shapes[name.str()] = shape;
  }
  return std::nullopt;
}

//===--------------------------------------------------------------------------------------------------------------===//
// Values
//===--------------------------------------------------------------------------------------------------------------===//

static HostTensor makeTensor(const ArgumentInfo &info) {
  if (info.strides.empty())
    return HostTensor(info.dtype, info.shape);
  return HostTensor(info.dtype, info.shape, info.strides, info.offset);
}

/// Fills every line along the last dimension with ascending numbers from 0 to `last`, or to the largest number of the
/// type.
static void fillSorted(HostTensor &tensor, const ArgumentInfo &info, int64_t last, std::mt19937_64 &generator) {
  last = std::min(last, llvm::maxIntN(getByteSize(info.dtype) * 8));
  std::uniform_int_distribution<int64_t> integer(0, last);
  std::vector<int64_t> line(info.shape.back());
  tensor.forEach([&](int64_t position, void *data) {
    int64_t column = position % int64_t(line.size());
    if (column == 0) {
      for (int64_t &element : line)
        element = integer(generator);
      line.back() = last;
      line.front() = 0;
      llvm::sort(line);
    }
    storeElement(info.dtype, data, double(line[column]));
  });
}

/// Fills in numbers like the log-sum-exps of `numKeys` random scores. Every eighth row is like one that sees no key.
static void fillLogSumExps(HostTensor &tensor, int64_t numKeys, std::mt19937_64 &generator) {
  std::normal_distribution<double> normal(std::log(double(numKeys)) + 0.5, 1.0);
  tensor.forEach([&](int64_t position, void *data) {
    double value = normal(generator);
    storeElement(tensor.getDType(), data, position % 8 == 7 ? -INFINITY : value);
  });
}

HostTensor flashc::makeInput(const FunctionInputs &inputs, size_t number, uint64_t seed) {
  const ArgumentInfo &info = inputs.arguments[number];
  HostTensor tensor = makeTensor(info);
  if (info.role == ArgumentRole::Output)
    return tensor; // outputs stay poisoned
  std::mt19937_64 generator(seed * 0x9E3779B97F4A7C15u + number);
  if (info.isSorted) {
    fillSorted(tensor, info, std::max(inputs.dims.at("Nq"), inputs.dims.at("Nk")), generator);
    return tensor;
  }
  if (info.name == "lse" || info.name == "lse_parts") {
    fillLogSumExps(tensor, std::max<int64_t>(inputs.dims.at("Nk"), 1), generator);
    return tensor;
  }
  std::normal_distribution<double> normal;
  std::uniform_int_distribution<int64_t> integer(0, info.dtype == DType::I1 ? 1 : inputs.dims.at("Nk"));
  tensor.forEach([&](int64_t, void *data) {
    storeElement(info.dtype, data, isFloat(info.dtype) ? normal(generator) : double(integer(generator)));
  });
  return tensor;
}

llvm::SmallVector<HostTensor> flashc::makeInputs(const FunctionInputs &inputs, uint64_t seed) {
  llvm::SmallVector<HostTensor> tensors;
  for (size_t number = 0; number < inputs.arguments.size(); ++number)
    tensors.push_back(makeInput(inputs, number, seed));
  return tensors;
}
