// RUN: %vary %s | flashc-opt --split-input-file --verify-diagnostics

func.func @invalid(%a: tensor<i32>, %a2: memref<2x0xi32>, %a3: tensor<?xf32>, %a4: tensor<?xi1>, %a5: tensor<?xi32>,
    %i: index, %a6: tensor<2x?xi32>, %x: f32) {
  // BODY
  return
}

// VARY rank_0
//     %s = flash.assume_sorted %a : tensor<i32> | error: expected an array of rank 1 or more, got 'tensor<i32>'
// VARY empty
//     %s = flash.assume_sorted %a2 : memref<2x0xi32>
//     | error: expected an element along the last dimension, got 'memref<2x0xi32>'
// VARY element
//     %s = flash.assume_sorted %a3 : tensor<?xf32> | error: operand #0 must be
// VARY narrow
//     %s = flash.assume_sorted %a4 : tensor<?xi1> | error: operand #0 must be
// VARY not_declared
//     %n = flash.count_le %i in %a5 : index, tensor<?xi32> | error: expected an array that flash.assume_sorted declares
// VARY nth_not_declared
//     %n = flash.nth %i in %a5 : tensor<?xi32> | error: expected an array that flash.assume_sorted declares
// VARY no_index
//     %s = flash.assume_sorted %a6 : tensor<2x?xi32>
//     %n = flash.count_le %i in %s : index, tensor<2x?xi32>
//     | error: expected an index for every dimension but the last of an array of rank 2, got 0
// VARY nth_too_many_indices
//     %s = flash.assume_sorted %a5 : tensor<?xi32>
//     %n = flash.nth %i in %s[%i] : tensor<?xi32>
//     | error: expected an index for every dimension but the last of an array of rank 1, got 1
// VARY value
//     %s = flash.assume_sorted %a5 : tensor<?xi32>
//     %n = flash.count_le %x in %s : f32, tensor<?xi32> | error: operand #0 must be
// VARY segments_not_declared
//     %n:3 = flash.segment_tile %i of %a5 length %i tiles 16 : tensor<?xi32>
//     | error: expected an array that flash.assume_sorted declares
// VARY segments_of_nothing
//     %s = flash.assume_sorted %a5 : tensor<?xi32>
//     %n:3 = flash.segment_tile %i of %s length %i tiles 0 : tensor<?xi32>
//     | error: expected a positive tile size, got 0
// VARY segments_without_index
//     %s = flash.assume_sorted %a6 : tensor<2x?xi32>
//     %n:3 = flash.segment_tile %i of %s length %i tiles 16 : tensor<2x?xi32>
//     | error: expected an index for every dimension but the last of an array of rank 2, got 0
