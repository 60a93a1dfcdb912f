//===- TileOps.td - the tile dialect: schedules (L2) --------------------------------------------------------------===//
#ifndef FLASHC_TILE_OPS_TD
#define FLASHC_TILE_OPS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def Tile_Dialect : Dialect {
  let name = "tile";
  let cppNamespace = "::mlir::tile";
}

#endif // FLASHC_TILE_OPS_TD
