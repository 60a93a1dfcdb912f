//===- BuildAttention.h - an attention from plain numbers ---------------------------------------------------------===//
#ifndef FLASHC_COMPILER_BUILDATTENTION_H
#define FLASHC_COMPILER_BUILDATTENTION_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace flashc {

/// An attention of any batch, number of queries and number of keys.
struct AttentionSpec {
  enum class Mask {
    None,
    /// Query i sees key j when j <= i + Nk - Nq.
    Causal
  };
  /// Of q, k, v and o.
  mlir::Type dtype;
  int64_t headDim, valueDim;
  int64_t queryHeads, keyHeads;
  float scale;
  Mask mask = Mask::None;
};

/// A module with one function, `attention(q, k, v) -> (o, lse)`, on tensors, verified. Fails after a diagnostic.
mlir::FailureOr<mlir::OwningOpRef<mlir::ModuleOp>> buildAttention(mlir::MLIRContext &context,
                                                                  const AttentionSpec &spec);

} // namespace flashc

#endif // FLASHC_COMPILER_BUILDATTENTION_H
