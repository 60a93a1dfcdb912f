// RUN: %vary %s | flashc-opt --flash-parallelize -split-input-file -verify-diagnostics

// Loops that are not parallel, one reason at a time.

!out4 = tensor<1x2x128x8xf32>
!out3 = tensor<1x2x128xf32>
!tile4 = tensor<1x1x64x8xf32>
!tile3 = tensor<1x1x64xf32>
func.func @nest(%acc: !tile4, %m: !tile3, %o: !out4, %lse: !out3, %buffer: memref<1xf32>, %value: f32) -> (!out4, !out3) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c128 = arith.constant 128 : index
  %r:2 = scf.for %h = %c0 to %c2 step %c1 iter_args(%o0 = %o, %lse0 = %lse) -> (!out4, !out3) {
    %s:2 = scf.for %i = %c0 to %c128 step %c64 iter_args(%o1 = %o0, %lse1 = %lse0) -> (!out4, !out3) {
      %oe = tensor.empty() : !tile4
      %le = tensor.empty() : !tile3
      %ot, %lt = flash.finalize ins(%acc, %m, %m : !tile4, !tile3, !tile3) outs(%oe, %le : !tile4, !tile3)
          {normalize = #flash.normalize<deferred>} -> !tile4, !tile3
      %o2 = tensor.insert_slice %ot into %o1[0, %h, %i, 0] [1, 1, 64, 8] [1, 1, 1, 1] : !tile4 into !out4
      %lse2 = tensor.insert_slice %lt into %lse1[0, %h, %i] [1, 1, 64] [1, 1, 1] : !tile3 into !out3
      scf.yield %o2, %lse2 : !out4, !out3
    }
    scf.yield %s#0, %s#1 : !out4, !out3
  }
  return %r#0, %r#1 : !out4, !out3
}

// VARY overlap: Tiles of 64 queries, every 32 queries: two iterations write one row.
//   %c64 iter_args => %c32 iter_args
//     | error: cannot parallelize: the iterations do not own the slices they write: expected tiles as large as the loop step 32, clamped at the loop's end in dimension 2
//   %o2 = | note: see 'tensor.insert_slice'
// VARY same_slice: Both heads write the same slice.
//   %r:2 | error: cannot parallelize: all iterations of the loop write the same slice
//   %h, %i, => 0, %i, | note: see 'tensor.insert_slice'
// VARY reads_others: An iteration reads what the ones before it have written.
//   %s:2 | error: cannot parallelize: an iteration reads what others have written
//   %ot, =>
//     %x = arith.negf %lse1 : !out3 | note: see 'arith.negf'
//     %ot,
// VARY not_written: The tile of lse goes into another tensor than the one that is carried.
//   %s:2 | error: cannot parallelize: expected every iteration to write one slice of each tensor that the loop carries
//   %lse1[0, %h, %i] => %lse[0, %h, %i] | note: see 'tensor.insert_slice'
// VARY triangular: The number of query tiles depends on the head.
//   %s:2 =>
//     %n = arith.muli %h, %c64 : index | note: see 'arith.muli'
//     %s:2
//   %c128 step => %n step | error: cannot parallelize: the loop's bounds change inside the nest
// VARY side_effect: A store in the loop would race.
//   %r:2 | error: cannot parallelize: expected a loop body without side effects
//   %ot, =>
//     memref.store %value, %buffer[%c0] : memref<1xf32>
//     %ot,

// -----

// A tile of segments of which more is written than it has.
func.func @segments(%acc: tensor<1x1x64x8xf32>, %m: tensor<1x1x64xf32>, %o: tensor<1x1x?x8xf32>, %lse: tensor<1x1x?xf32>, %offsets: tensor<?xi32>, %n: index, %count: index) -> (tensor<1x1x?x8xf32>, tensor<1x1x?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %s = flash.assume_sorted %offsets : tensor<?xi32>
  // expected-error @+1 {{cannot parallelize: the iterations do not own the slices they write: expected the offset to be 0 or the induction variable of a loop in dimension 2}}
  %r:2 = scf.for %t = %c0 to %count step %c1 iter_args(%o1 = %o, %lse1 = %lse) -> (tensor<1x1x?x8xf32>, tensor<1x1x?xf32>) {
    %i, %rows, %segment = flash.segment_tile %t of %s length %n tiles 64 : tensor<?xi32>
    %oe = tensor.empty() : tensor<1x1x64x8xf32>
    %le = tensor.empty() : tensor<1x1x64xf32>
    %ot, %lt = flash.finalize ins(%acc, %m, %m : tensor<1x1x64x8xf32>, tensor<1x1x64xf32>, tensor<1x1x64xf32>)
        outs(%oe, %le : tensor<1x1x64x8xf32>, tensor<1x1x64xf32>)
        {normalize = #flash.normalize<deferred>} -> tensor<1x1x64x8xf32>, tensor<1x1x64xf32>
    // expected-note @+1 {{see 'tensor.insert_slice'}}
    %o2 = tensor.insert_slice %ot into %o1[0, 0, %i, 0] [1, 1, 64, 8] [1, 1, 1, 1] : tensor<1x1x64x8xf32> into tensor<1x1x?x8xf32>
    %lse2 = tensor.insert_slice %lt into %lse1[0, 0, %i] [1, 1, 64] [1, 1, 1] : tensor<1x1x64xf32> into tensor<1x1x?xf32>
    scf.yield %o2, %lse2 : tensor<1x1x?x8xf32>, tensor<1x1x?xf32>
  }
  return %r#0, %r#1 : tensor<1x1x?x8xf32>, tensor<1x1x?xf32>
}
