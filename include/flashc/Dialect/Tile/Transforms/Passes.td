//===- Passes.td - the schedule passes (within L2) ----------------------------------------------------------------===//
#ifndef FLASHC_TILE_PASSES_TD
#define FLASHC_TILE_PASSES_TD

include "mlir/Pass/PassBase.td"

def Pipeline : Pass<"tile-pipeline"> {
  let summary = "the softmax of one key tile runs beside the second product of the tile before it";
  let options = [
    Option<"printPlan", "print-plan", "bool", "false", "print which op goes where, on standard output">];
  let statistics = [
    Statistic<"numPipelined", "num-pipelined", "key loops rotated">];
}

def Specialize : Pass<"tile-specialize"> {
  let summary = "one program becomes a producer of tiles and their consumers";
  let statistics = [
    Statistic<"numSpecialized", "num-specialized", "programs split into producer and consumers">];
}

def SplitLoops : Pass<"tile-split-loops"> {
  let summary = "key tiles that need a mask and those that do not get loops of their own";
  let statistics = [
    Statistic<"numSplit", "num-split", "loops split">];
}

#endif // FLASHC_TILE_PASSES_TD
