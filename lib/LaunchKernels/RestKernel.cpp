//===- RestKernel.cpp - the kernel that clears elements of which there is no pair ---------------------------------===//

#include "KernelBody.h"
#include "ScatterSums.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace flashc;

static constexpr int64_t kThreads = 256;

namespace {
/// CTA n handles line n of the result: it sets to 0 the elements that no pair belongs to.
class RestBody : public KernelBody {
public:
  RestBody(gpu::GPUFuncOp kernel, KernelSignature &signature, const ScatterSums &sums)
      : KernelBody(kernel, signature), sums(sums) {}

  LogicalResult emit() {
    int64_t rank = sums.getRank(), last = rank - 1;
    SmallVector<OpFoldResult> inL1(sums.extents.end() - rank, sums.extents.end());
    if (rank == 3) // the dimension of batches or the one of heads, whose extent is 1, is absent
      inL1.front() = isConstantIntValue(sums.extents[1], 1) ? sums.extents[0] : sums.extents[1];
    SmallVector<Value> shape(rank), extents(rank);
    auto readDim = [&](int64_t dim) {
      extents[dim] = scalars.get(b, b.getLoc(), inL1[dim]);
      shape[dim] = sums.emitSize(b, signature, dim);
    };
    for (int64_t dim = last; dim-- > 0;)
      readDim(dim);
    readDim(last);
    if (llvm::is_contained(extents, Value()))
      return failure();
    SmallVector<Value> element(last);
    Value line = block(), hasPairs = boolean(true);
    for (int64_t dim = last; dim-- > 0;) {
      element[dim] = dim == 0 ? line : rem(line, shape[dim]);
      line = div(line, shape[dim]);
      hasPairs = arith::AndIOp::create(b, hasPairs, isBelow(element[dim], extents[dim]));
    }
    Value begin = select(hasPairs, extents.back(), index(0)), first = add(begin, thread());
    emitFor(first, shape.back(), index(kThreads), [&](Value column) {
      SmallVector<Value> place(element);
      place.push_back(column);
      Value none = constant(0);
      for (unsigned output : sums.outputs)
        memref::StoreOp::create(b, none, signature.getMemRef(output), place);
    });
    return success();
  }

private:
  const ScatterSums &sums;
};

/// The kernel that completes a direct scatter_sum (ScatterSums::isDirect). The main kernel writes the elements that
/// belong to a pair. This kernel writes the rest.
class RestKernel : public LaunchKernel {
public:
  explicit RestKernel(ScatterSums sums) : LaunchKernel(sums.op, sums.outputs), sums(std::move(sums)) {}

  SmallVector<Value> getDestinations(const LaunchNest &, unsigned, OpBuilder &b, ScalarCloner &scalars) const override {
    return llvm::map_to_vector(outputs, [&](unsigned output) { return scalars.getSignature().getMemRef(output); });
  }

  void addRoles(LaunchRoles &roles) const override { sums.addRoles(roles); }

  FailureOr<ManifestKernel> emit(const LaunchNest &nest, const LaunchContext &context) const override {
    GridFormula lines = llvm::product_of(ArrayRef(sums.getSizes()).drop_back(), GridFormula(1));
    return emitKernel<RestBody>(context, "_rest" + nest.getNumberSuffix(), kThreads, {lines, 1, 1}, sums);
  }

private:
  ScatterSums sums;
};
} // namespace

void flashc::matchRest(LaunchNest &nest) {
  if (std::optional<ScatterSums> sums = ScatterSums::find(nest); sums && sums->isDirect())
    nest.kernels.push_back(std::make_unique<RestKernel>(std::move(*sums)));
}
