//===- CacheOps.cpp - keys and values in a cache: constraints, shapes, and the ops as linalg ----------------------===//

#include "flashc/Dialect/Flash/IR/Flash.h"
#include "mlir/Dialect/Affine/IR/AffineOps.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Arith/Utils/Utils.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

using namespace mlir;
using namespace mlir::flash;

static bool mayBeSame(int64_t x, int64_t y) { return ShapedType::isDynamic(x) || ShapedType::isDynamic(y) || x == y; }

/// Verifies the constraints that flash.cache_view and flash.cache_tile share.
template <typename CacheOp> static LogicalResult verifyCache(CacheOp op) {
  auto cache = cast<RankedTensorType>(op.getCache().getType()),
       result = cast<RankedTensorType>(op.getResult().getType());
  bool hasEightBits = cache.getElementTypeBitWidth() == 8;
  if ((!hasEightBits && cache.getElementType() != result.getElementType()) || cache.isDynamicDim(3) ||
      cache.getDimSize(3) != result.getDimSize(3))
    return op.emitOpError() << "expected a result of the cache's element type and static head dimension (C1), got "
                            << cache << " and " << result;
  if (op.getTable() && cache.isDynamicDim(2))
    return op.emitOpError() << "expected pages of a static number of rows (C1), got " << cache;
  if (!op.getLengths() && !op.getTable())
    return op.emitOpError() << "expected lengths or pages (C3)";
  if (hasEightBits != static_cast<bool>(op.getScales()))
    return op.emitOpError() << "expected scales where the cache has elements of 8 bits, and there only (C4), got "
                            << cache.getElementType();
  if (!op.getScales())
    return success();
  auto scales = cast<RankedTensorType>(op.getScales().getType());
  int64_t pages = op.getTable() ? cache.getDimSize(0) : 1;
  for (auto [extent, whole, what] : {std::tuple(scales.getDimSize(0), pages, "pages, where there are pages"),
                                     std::tuple(scales.getDimSize(1), cache.getDimSize(1), "key heads")})
    if (extent != 1 && !mayBeSame(extent, whole))
      return op.emitOpError() << "expected scales of one or all " << what << ", got " << scales;
  return success();
}

LogicalResult CacheViewOp::verify() {
  if (failed(verifyCache(*this)))
    return failure();
  auto cache = cast<RankedTensorType>(getCache().getType()), result = cast<RankedTensorType>(getResult().getType());
  if (!mayBeSame(cache.getDimSize(1), result.getDimSize(1)))
    return emitOpError() << "expected as many key heads as the cache has (C1), got " << cache << " and " << result;
  SmallVector<int64_t, 3> batches{result.getDimSize(0)};
  if (getLengths())
    batches.push_back(cast<RankedTensorType>(getLengths().getType()).getDimSize(0));
  int64_t keys = cache.getDimSize(2);
  if (getTable()) {
    auto table = cast<RankedTensorType>(getTable().getType());
    batches.push_back(table.getDimSize(0));
    keys = table.isDynamicDim(1) ? ShapedType::kDynamic : table.getDimSize(1) * cache.getDimSize(2);
  } else {
    batches.push_back(cache.getDimSize(0));
  }
  for (int64_t x : batches)
    for (int64_t y : batches)
      if (!mayBeSame(x, y))
        return emitOpError() << "expected one number of sequences (C2), got " << x << " and " << y;
  if (!mayBeSame(keys, result.getDimSize(2)))
    return emitOpError() << "expected " << keys << " keys (C2), got " << result.getDimSize(2);
  return success();
}

LogicalResult CacheTileOp::verify() {
  if (failed(verifyCache(*this)))
    return failure();
  auto result = cast<RankedTensorType>(getResult().getType());
  if (!result.hasStaticShape() || result.getDimSize(0) != 1 || result.getDimSize(1) != 1)
    return emitOpError() << "expected a tile of 1 x 1 x n x D, got " << result;
  return success();
}

LogicalResult CacheViewOp::reifyResultShapes(OpBuilder &b, ReifiedRankedShapedTypeDims &shapes) {
  auto getSize = [&](Value array, int64_t dim) { return tensor::getMixedSize(b, getLoc(), array, dim); };
  OpFoldResult keys = getSize(getCache(), 2);
  if (getTable()) {
    auto pages = cast<RankedTensorType>(getCache().getType()).getDimSize(2);
    keys = affine::makeComposedFoldedAffineApply(b, getLoc(), b.getAffineDimExpr(0) * pages, {getSize(getTable(), 1)});
  }
  shapes.push_back(
      {getSize(getTable() ? getTable() : getCache(), 0), getSize(getCache(), 1), keys, getSize(getCache(), 3)});
  return success();
}

namespace {
/// The arrays of a flash.cache_view or flash.cache_tile.
struct Cache {
  Value rows, lengths, table, scales;
};
} // namespace

/// Converts a float8_e4m3 to f32. The format has a sign, four bits of exponent with bias 7, and three bits of mantissa.
/// It has no infinities; NaN is the value where all bits but the sign are 1.
static Value widenFloat8(ImplicitLocOpBuilder &b, Value element) {
  auto constant = [&](uint32_t value) -> Value { return arith::ConstantOp::create(b, b.getI32IntegerAttr(value)); };
  Type f32 = b.getF32Type();
  Value bits = arith::ExtUIOp::create(b, b.getI32Type(), arith::BitcastOp::create(b, b.getI8Type(), element));
  Value magnitude = arith::AndIOp::create(b, bits, constant(0x7F));
  // Reads the bits as an f32. The exponent of f32 has the bias 127 instead of 7, which the factor 2^120 corrects. The
  // factor is also right for subnormal numbers, which are read as subnormals of f32.
  Value small = arith::BitcastOp::create(b, f32, arith::ShLIOp::create(b, magnitude, constant(20)));
  Value value = arith::MulFOp::create(b, small, arith::ConstantOp::create(b, b.getF32FloatAttr(0x1p120f)));
  Value isNaN = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, magnitude, constant(0x7F));
  Value nan = arith::ConstantOp::create(b, b.getF32FloatAttr(std::numeric_limits<float>::quiet_NaN()));
  Value sign = arith::ShLIOp::create(b, arith::AndIOp::create(b, bits, constant(0x80)), constant(24));
  Value signed_ = arith::OrIOp::create(b, arith::BitcastOp::create(b, b.getI32Type(), value), sign);
  return arith::SelectOp::create(b, isNaN, nan, arith::BitcastOp::create(b, f32, signed_));
}

/// Emits the value of an element of 8 bits times the element's scale, as a float of type `type`.
static Value dequantise(ImplicitLocOpBuilder &b, Cache cache, Value element, Value page, Value head, Type type) {
  Type f32 = b.getF32Type();
  Value value =
      element.getType().isInteger() ? arith::SIToFPOp::create(b, f32, element).getResult() : widenFloat8(b, element);
  auto scales = cast<RankedTensorType>(cache.scales.getType());
  Value zero = arith::ConstantIndexOp::create(b, 0);
  SmallVector<Value> place{scales.getDimSize(0) == 1 ? zero : page, scales.getDimSize(1) == 1 ? zero : head};
  value = arith::MulFOp::create(b, value, tensor::ExtractOp::create(b, cache.scales, place));
  return type == f32 ? value : arith::TruncFOp::create(b, type, value).getResult();
}

static Value emitConstant(OpBuilder &b, Location loc, Type element, double value) {
  APFloat number(value);
  bool losesInfo;
  number.convert(cast<FloatType>(element).getFloatSemantics(), APFloat::rmNearestTiesToEven, &losesInfo);
  return arith::ConstantOp::create(b, loc, b.getFloatAttr(element, number));
}

/// Emits code whose value is that of `read` if `condition` holds, and otherwise the number `otherwise`. The code that
/// `read` emits runs only if `condition` holds.
static Value emitIf(ImplicitLocOpBuilder &b, Value condition, Type element, double otherwise,
                    llvm::function_ref<Value(ImplicitLocOpBuilder &)> read) {
  auto branch = scf::IfOp::create(
      b, condition,
      [&](OpBuilder &builder, Location loc) {
        ImplicitLocOpBuilder inside(loc, builder);
        scf::YieldOp::create(builder, loc, read(inside));
      },
      [&](OpBuilder &builder, Location loc) {
        scf::YieldOp::create(builder, loc, emitConstant(builder, loc, element, otherwise));
      });
  return branch.getResult(0);
}

/// Emits the element (b, h, j, d) of a cache, as a float of type `element`. The element is 0 if the sequence has no row
/// j, and NaN if the table's entry is not a page. In these two cases the code does not read the cache.
static Value emitElement(ImplicitLocOpBuilder &b, Cache cache, Value batch, Value head, Value key, Value column,
                         Type element) {
  auto getExtent = [&](Value array, int64_t dim) {
    return getValueOrCreateConstantIndexOp(b, b.getLoc(), tensor::getMixedSize(b, b.getLoc(), array, dim));
  };
  Value page = getExtent(cache.rows, 2), end = page;
  if (cache.table)
    end = arith::MulIOp::create(b, getExtent(cache.table, 1), page);
  if (cache.lengths) {
    Value length =
        arith::IndexCastOp::create(b, b.getIndexType(), tensor::ExtractOp::create(b, cache.lengths, batch).getResult());
    end = arith::MinSIOp::create(b, end, length);
  }
  auto readRow = [&](ImplicitLocOpBuilder &inside, Value outer, Value row) -> Value {
    Value read = tensor::ExtractOp::create(inside, cache.rows, ValueRange{outer, head, row, column});
    return cache.scales ? dequantise(inside, cache, read, outer, head, element) : read;
  };
  Value exists = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, key, end);
  return emitIf(b, exists, element, 0.0, [&](ImplicitLocOpBuilder &inside) -> Value {
    if (!cache.table)
      return readRow(inside, batch, key);
    Value number = arith::DivUIOp::create(inside, key, page), row = arith::RemUIOp::create(inside, key, page);
    Value entry = tensor::ExtractOp::create(inside, cache.table, ValueRange{batch, number});
    entry = arith::IndexCastOp::create(inside, inside.getIndexType(), entry);
    Value pages = getValueOrCreateConstantIndexOp(inside, inside.getLoc(),
                                                  tensor::getMixedSize(inside, inside.getLoc(), cache.rows, 0));
    Value isPage = arith::CmpIOp::create(inside, arith::CmpIPredicate::ult, entry, pages); // -1 is a large number
    return emitIf(inside, isPage, element, std::numeric_limits<double>::quiet_NaN(),
                  [&](ImplicitLocOpBuilder &nested) { return readRow(nested, entry, row); });
  });
}

/// Emits a tensor of the elements of a cache at the positions [at, at + sizes).
static Value emitElements(ImplicitLocOpBuilder &b, Cache cache, ArrayRef<Value> at, ArrayRef<OpFoldResult> sizes,
                          Type type) {
  Type element = getElementTypeOrSelf(type);
  Value empty = tensor::EmptyOp::create(b, sizes, element);
  AffineMap identity = b.getMultiDimIdentityMap(4);
  SmallVector<utils::IteratorType> loops(4, utils::IteratorType::parallel);
  auto elements = linalg::GenericOp::create(
      b, empty.getType(), ValueRange(), empty, identity, loops, [&](OpBuilder &builder, Location loc, ValueRange) {
        ImplicitLocOpBuilder inside(loc, builder);
        SmallVector<Value> position;
        for (int64_t dim = 0; dim < 4; ++dim) {
          Value index = linalg::IndexOp::create(inside, dim);
          position.push_back(at[dim] ? arith::AddIOp::create(inside, index, at[dim]).getResult() : index);
        }
        linalg::YieldOp::create(
            inside, emitElement(inside, cache, position[0], position[1], position[2], position[3], element));
      });
  Value result = elements.getResult(0);
  return result.getType() == type ? result : tensor::CastOp::create(b, type, result);
}

FailureOr<SmallVector<Value>> CacheViewOp::decomposeOperation(OpBuilder &builder) {
  ImplicitLocOpBuilder b(getLoc(), builder);
  ReifiedRankedShapedTypeDims shapes;
  if (failed(reifyResultShapes(b, shapes)))
    return failure();
  return SmallVector<Value>{emitElements(b, {getCache(), getLengths(), getTable(), getScales()}, {{}, {}, {}, {}},
                                         shapes.front(), getType())};
}

FailureOr<SmallVector<Value>> CacheTileOp::decomposeOperation(OpBuilder &builder) {
  ImplicitLocOpBuilder b(getLoc(), builder);
  SmallVector<OpFoldResult> sizes = getAsIndexOpFoldResult(getContext(), cast<RankedTensorType>(getType()).getShape());
  return SmallVector<Value>{emitElements(b, {getCache(), getLengths(), getTable(), getScales()},
                                         {getB(), getH(), getJ(), {}}, sizes, getType())};
}
