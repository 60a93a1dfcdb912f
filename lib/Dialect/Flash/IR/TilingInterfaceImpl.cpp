#include "flashc/Dialect/Flash/IR/Flash.h"
using namespace mlir;
using namespace mlir::flash;
FailureOr<SmallVector<Value>> OnlineAttentionOp::decomposeOperation(OpBuilder &){return failure();}
FailureOr<SmallVector<Value>> FinalizeOp::decomposeOperation(OpBuilder &){return failure();}
SmallVector<Range> OnlineAttentionOp::getIterationDomain(OpBuilder &){return {};}
SmallVector<utils::IteratorType> OnlineAttentionOp::getLoopIteratorTypes(){return {};}
FailureOr<TilingResult> OnlineAttentionOp::getTiledImplementation(OpBuilder &, ArrayRef<OpFoldResult>, ArrayRef<OpFoldResult>){return failure();}
LogicalResult OnlineAttentionOp::getResultTilePosition(OpBuilder&,unsigned,ArrayRef<OpFoldResult>,ArrayRef<OpFoldResult>,SmallVector<OpFoldResult>&,SmallVector<OpFoldResult>&){return failure();}
SmallVector<Range> FinalizeOp::getIterationDomain(OpBuilder &){return {};}
SmallVector<utils::IteratorType> FinalizeOp::getLoopIteratorTypes(){return {};}
FailureOr<TilingResult> FinalizeOp::getTiledImplementation(OpBuilder &, ArrayRef<OpFoldResult>, ArrayRef<OpFoldResult>){return failure();}
LogicalResult FinalizeOp::getResultTilePosition(OpBuilder&,unsigned,ArrayRef<OpFoldResult>,ArrayRef<OpFoldResult>,SmallVector<OpFoldResult>&,SmallVector<OpFoldResult>&){return failure();}
FailureOr<TilingResult> FinalizeOp::generateResultTileValue(OpBuilder&,unsigned,ArrayRef<OpFoldResult>,ArrayRef<OpFoldResult>){return failure();}
