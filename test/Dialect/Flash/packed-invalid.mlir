// RUN: %vary %s | flashc-opt --split-input-file --verify-diagnostics

func.func @invalid(%q: tensor<1x4x?x8xf32>, %batch: tensor<3x4x?x8xf32>, %offsets: tensor<?xi32>, %four: tensor<4xi32>,
    %five: tensor<5xi32>, %matrix: tensor<2x4xi32>, %half: tensor<1x4x?x8xf16>, %two: tensor<2x4x?x8xf32>) {
  %cu = flash.assume_sorted %offsets : tensor<?xi32>
  %cu5 = flash.assume_sorted %five : tensor<5xi32>
  %cu2 = flash.assume_sorted %matrix : tensor<2x4xi32>
  // BODY
  return
}

// VARY undeclared
//     %x = flash.unpack_rows %q by %four : tensor<1x4x?x8xf32>, tensor<4xi32> -> tensor<3x4x?x8xf32>
//     | error: expected offsets of rank 1 that flash.assume_sorted declares (C2), got 'tensor<4xi32>'
// VARY rank
//     %x = flash.unpack_rows %q by %cu2 : tensor<1x4x?x8xf32>, tensor<2x4xi32> -> tensor<3x4x?x8xf32>
//     | error: expected offsets of rank 1 that flash.assume_sorted declares (C2), got 'tensor<2x4xi32>'
// VARY count
//     %x = flash.unpack_rows %q by %cu5 : tensor<1x4x?x8xf32>, tensor<5xi32> -> tensor<3x4x?x8xf32>
//     | error: expected an offset more than sequences (C1), got 5 and 3
// VARY type
//     %x = flash.pack_rows %batch by %cu : tensor<3x4x?x8xf32>, tensor<?xi32> -> tensor<1x4x?x8xf16>
//     | error: expected packed rows of one batch, and as many heads, rows and columns in each sequence (C1)
// VARY batch
//     %x = flash.unpack_rows %two by %cu : tensor<2x4x?x8xf32>, tensor<?xi32> -> tensor<3x4x?x8xf32>
//     | error: expected packed rows of one batch, and as many heads, rows and columns in each sequence (C1)
