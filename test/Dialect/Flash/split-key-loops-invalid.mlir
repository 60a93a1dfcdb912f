// RUN: %vary %s | flashc-opt --flash-split-key-loops=splits=2 --split-input-file --verify-diagnostics
// RUN: not flashc-opt %S/split-key-loops.mlir --flash-fa2 --flash-split-key-loops=splits=0 2>&1 | FileCheck %s --check-prefix=ZERO
// ZERO: error: cannot split keys: expected a positive number of parts, got 0

!acc = tensor<1x1x8x16xf32>
!row = tensor<1x1x8xf32>
!all = tensor<1x1x?x16xf32>

func.func @split(%acc: !acc, %m: !row, %l: !row, %o: !all, %n: index) -> !all {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %r = scf.forall (%i) = (0) to (%n) step (8) shared_outs(%out = %o) -> !all {
    %s:3 = scf.for %j = %c0 to %i step %c8 iter_args(%a = %acc, %b = %m, %c = %l) -> (!acc, !row, !row) {
      scf.yield %a, %b, %c : !acc, !row, !row
    }
    %x, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !row, !row) outs(%acc, %m : !acc, !row)
      {normalize = #flash.normalize<deferred>} -> !acc, !row
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %x into %out[0, 0, %i, 0] [1, 1, 8, 16] [1, 1, 1, 1] : !acc into !all
    }
  }
  return %r : !all
}

// VARY no_loop
//   ins(%s#0, %s#1, %s#2 => ins(%acc, %m, %l | error: cannot split keys: expected loops over keys
// VARY each_step
//   %x, %lse | error: cannot split keys: expected normalize = deferred
//   normalize<deferred> => normalize<each_step>
// VARY late_bound
//   %x, %lse =>
//     %end = arith.addi %i, %c8 : index | note: see 'arith.addi'
//     %t:3 = scf.for %j = %i to %end step %c8 iter_args(%a = %s#0, %b = %s#1, %c = %s#2) -> (!acc, !row, !row) {
//     | error: cannot split keys: expected all bounds before the first loop
//       scf.yield %a, %b, %c : !acc, !row, !row
//     }
//     %x, %lse
//   ins(%s#0, %s#1, %s#2 => ins(%t#0, %t#1, %t#2
// VARY unwritten
//   %r = scf.forall => %r:2 = scf.forall | error: cannot split keys: expected the parallel loop to write all its results
//   shared_outs(%out = %o) -> !all => shared_outs(%out = %o, %again = %o) -> (!all, !all)
//   return %r => return %r#0
// VARY twice
//   %x, %lse | error: cannot split keys: expected o and lse to be written once, and used for nothing else
//   %r = scf.forall => %r:2 = scf.forall
//   shared_outs(%out = %o) -> !all => shared_outs(%out = %o, %again = %o) -> (!all, !all)
//   return %r => return %r#0
//   scf.forall.in_parallel { =>
//     scf.forall.in_parallel {
//       tensor.parallel_insert_slice %x into %again[0, 0, %i, 0] [1, 1, 8, 16] [1, 1, 1, 1] : !acc into !all
