// RUN: flashc-opt %s --split-input-file --verify-diagnostics

func.func @rank_0(%a: tensor<i32>) {
  // expected-error @+1 {{expected an array of rank 1 or more, got 'tensor<i32>'}}
  %s = flash.assume_sorted %a : tensor<i32>
  return
}

// -----

func.func @empty(%a: memref<2x0xi32>) {
  // expected-error @+1 {{expected an element along the last dimension, got 'memref<2x0xi32>'}}
  %s = flash.assume_sorted %a : memref<2x0xi32>
  return
}

// -----

func.func @element(%a: tensor<?xf32>) {
  // expected-error @+1 {{operand #0 must be}}
  %s = flash.assume_sorted %a : tensor<?xf32>
  return
}

// -----

func.func @narrow(%a: tensor<?xi1>) {
  // expected-error @+1 {{operand #0 must be}}
  %s = flash.assume_sorted %a : tensor<?xi1>
  return
}

// -----

func.func @not_declared(%a: tensor<?xi32>, %i: index) {
  // expected-error @+1 {{expected an array that flash.assume_sorted declares}}
  %n = flash.count_le %i in %a : index, tensor<?xi32>
  return
}

// -----

func.func @nth_not_declared(%a: tensor<?xi32>, %i: index) {
  // expected-error @+1 {{expected an array that flash.assume_sorted declares}}
  %n = flash.nth %i in %a : tensor<?xi32>
  return
}

// -----

func.func @no_index(%a: tensor<2x?xi32>, %i: index) {
  %s = flash.assume_sorted %a : tensor<2x?xi32>
  // expected-error @+1 {{expected an index for every dimension but the last of an array of rank 2, got 0}}
  %n = flash.count_le %i in %s : index, tensor<2x?xi32>
  return
}

// -----

func.func @nth_too_many_indices(%a: tensor<?xi32>, %i: index) {
  %s = flash.assume_sorted %a : tensor<?xi32>
  // expected-error @+1 {{expected an index for every dimension but the last of an array of rank 1, got 1}}
  %n = flash.nth %i in %s[%i] : tensor<?xi32>
  return
}

// -----

func.func @value(%a: tensor<?xi32>, %x: f32) {
  %s = flash.assume_sorted %a : tensor<?xi32>
  // expected-error @+1 {{operand #0 must be}}
  %n = flash.count_le %x in %s : f32, tensor<?xi32>
  return
}

// -----

func.func @segments_not_declared(%a: tensor<?xi32>, %i: index) {
  // expected-error @+1 {{expected an array that flash.assume_sorted declares}}
  %n:3 = flash.segment_tile %i of %a length %i tiles 16 : tensor<?xi32>
  return
}

// -----

func.func @segments_of_nothing(%a: tensor<?xi32>, %i: index) {
  %s = flash.assume_sorted %a : tensor<?xi32>
  // expected-error @+1 {{expected a positive tile size, got 0}}
  %n:3 = flash.segment_tile %i of %s length %i tiles 0 : tensor<?xi32>
  return
}

// -----

func.func @segments_without_index(%a: tensor<2x?xi32>, %i: index) {
  %s = flash.assume_sorted %a : tensor<2x?xi32>
  // expected-error @+1 {{expected an index for every dimension but the last of an array of rank 2, got 0}}
  %n:3 = flash.segment_tile %i of %s length %i tiles 16 : tensor<2x?xi32>
  return
}
