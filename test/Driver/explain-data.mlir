// Loop bounds that read data: the inputs of --run count, by their seed. Memory of any strides, in any integer type.
// RUN: flashc %s --function=lengths --explain --dims=B=3,Nq=63,Nk=1000 | FileCheck %s --check-prefix=LENGTHS
// RUN: flashc %s --function=lengths --explain --dims=B=3,Nq=63,Nk=1000 --seed=1 | FileCheck %s --check-prefix=LENGTHS
// RUN: flashc %s --function=strided --explain --dims=B=2,Nq=64,Nk=1000 | FileCheck %s --check-prefix=STRIDED
// RUN: flashc %s --function=nothing --explain --dims=Nq=64,Nk=64 | FileCheck %s --check-prefix=NOTHING
// RUN: flashc %s --function=all --explain | FileCheck %s --check-prefix=ALL
// RUN: flashc %s --function=part --explain --dims=Nq=63,Nk=1000 | FileCheck %s --check-prefix=PART
// RUN: flashc %s --function=flags --explain --dims=B=2,Nq=64,Nk=1000 | FileCheck %s --check-prefix=FLAGS
// RUN: flashc %s --function=pairs --explain --dims=Nq=63,Nk=1000 | FileCheck %s --check-prefix=PAIRS

// LENGTHS: explain @lengths (B = 3, Hq = 2, Nq = 63, Nk = 1000)
// LENGTHS: j <= lens[b] - 1
// LENGTHS: tiles: 64 queries x 64 keys, by default, since there is no GPU kernel
// LENGTHS: each head of a batch:
// LENGTHS-NEXT: batch 0: skipped {{[0-9]+}}, partial {{[01]}}, full {{[0-9]+$}}
// LENGTHS-NEXT: batch 1: skipped {{[0-9]+}}, partial {{[01]}}, full {{[0-9]+$}}
// LENGTHS-NEXT: batch 2: skipped {{[0-9]+}}, partial {{[01]}}, full {{[0-9]+$}}
func.func @lengths(%q: tensor<?x2x?x8xf32>, %k: tensor<?x2x?x8xf32>, %v: tensor<?x2x?x8xf32>,
                   %lens: tensor<?xi64> {flash.name = "lens"}) -> tensor<?x2x?x8xf32> {
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>)
      {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %n64 = tensor.extract %lens[%b] : tensor<?xi64>
        %n = arith.index_cast %n64 : i64 to index
        %keep = arith.cmpi slt, %j, %n : index
        flash.yield %keep : i1
      } -> tensor<?x2x?x8xf32>, tensor<?x2x?xf32>
  return %o : tensor<?x2x?x8xf32>
}

// The bound of a head is that of its place in a strided array, at least 100, times a scalar that is at least 1.
// STRIDED: mask: exact
// STRIDED: j <= (max(select(arg4, arg3[b, h], max(arg3[b, h], 100)), 100) * fptosi(maximumf(arg5, 1))) - 1
// STRIDED: each head:
// STRIDED-NEXT: batch 0, head 0: skipped {{[0-9]+}}, partial {{[01]}}, full {{[0-9]+$}}
// STRIDED-NEXT: batch 0, head 1:
// STRIDED-NEXT: batch 1, head 0:
// STRIDED-NEXT: batch 1, head 1:
func.func @strided(%q: memref<?x2x?x8xf32>, %k: memref<?x2x?x8xf32>, %v: memref<?x2x?x8xf32>,
                   %ends: memref<?x2xi32, strided<[?, 3], offset: 5>>, %flag: i1, %factor: f32,
                   %o: memref<?x2x?x8xf32>, %lse: memref<?x2x?xf32>) {
  %c100 = arith.constant 100 : i32
  %one = arith.constant 1.0 : f32
  %f = arith.maximumf %factor, %one : f32
  %times32 = arith.fptosi %f : f32 to i32
  %times = arith.index_cast %times32 : i32 to index
  flash.attention ins(%q, %k, %v : memref<?x2x?x8xf32>, memref<?x2x?x8xf32>, memref<?x2x?x8xf32>)
      outs(%o, %lse : memref<?x2x?x8xf32>, memref<?x2x?xf32>) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %n32 = memref.load %ends[%b, %h] : memref<?x2xi32, strided<[?, 3], offset: 5>>
        %least = arith.maxsi %n32, %c100 : i32
        %either = arith.select %flag, %n32, %least : i32
        %enough = arith.maxui %either, %c100 : i32
        %n = arith.index_cast %enough : i32 to index
        %end = arith.muli %n, %times : index
        %keep = arith.cmpi slt, %j, %end : index
        flash.yield %keep : i1
      }
  return
}

// NOTHING: skipped            2   100.0 %
func.func @nothing(%q: tensor<1x2x?x8xf32>, %k: tensor<1x2x?x8xf32>, %v: tensor<1x2x?x8xf32>) -> tensor<1x2x?x8xf32> {
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>)
      {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %false = arith.constant false
        flash.yield %false : i1
      } -> tensor<1x2x?x8xf32>, tensor<1x2x?xf32>
  return %o : tensor<1x2x?x8xf32>
}

// Whole tiles, no mask: nothing to say about pairs.
// ALL: mask: exact
// ALL-NEXT: keeps every pair
// ALL-NEXT: tiles:
// ALL: full                 2   100.0 %
func.func @all(%q: tensor<1x2x64x8xf32>, %k: tensor<1x2x64x8xf32>, %v: tensor<1x2x64x8xf32>) -> tensor<1x2x64x8xf32> {
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<1x2x64x8xf32>, tensor<1x2x64x8xf32>, tensor<1x2x64x8xf32>)
      {scale = 1.0 : f32} -> tensor<1x2x64x8xf32>, tensor<1x2x64xf32>
  return %o : tensor<1x2x64x8xf32>
}

// What is bounded in part says which part is not.
// PART: mask: mapped
// PART-NEXT: because
// PART: keeps the pairs (i, j) with
// PART-NEXT: j <= 99
// PART-NEXT: j <= Nk - 1
// PART-NEXT: unknown: tensor.extract of an array that is not declared sorted{{$}}
// PART-NEXT: visits
// PART: skipped           28
func.func @part(%q: tensor<1x2x?x8xf32>, %k: tensor<1x2x?x8xf32>, %v: tensor<1x2x?x8xf32>, %bits: tensor<?x?xi1>)
    -> tensor<1x2x?x8xf32> {
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>)
      {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %c100 = arith.constant 100 : index
        %bit = tensor.extract %bits[%i, %j] : tensor<?x?xi1>
        %near = arith.cmpi slt, %j, %c100 : index
        %keep = arith.andi %bit, %near : i1
        flash.yield %keep : i1
      } -> tensor<1x2x?x8xf32>, tensor<1x2x?xf32>
  return %o : tensor<1x2x?x8xf32>
}

// The end of the keys, which is part of every mask, is no bound.
// PAIRS: mask: mapped
// PAIRS-NEXT: because tiles are visited by running the mask
// PAIRS-NEXT: because its map of 16 tiles takes {{[0-9]+}} bytes, and the mask is evaluated on up to 16; it reads arrays, so each launch without a plan computes the map again
// PAIRS-NEXT: keeps the pairs (i, j) with
// PAIRS-NEXT: j <= Nk - 1
// PAIRS-NEXT: unknown: tensor.extract of an array that is not declared sorted
// PAIRS: tiles that hold a kept pair
// PAIRS: partial           32   100.0 %
func.func @pairs(%q: tensor<1x2x?x8xf32>, %k: tensor<1x2x?x8xf32>, %v: tensor<1x2x?x8xf32>, %bits: tensor<?x?xi1>)
    -> tensor<1x2x?x8xf32> {
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>, tensor<1x2x?x8xf32>)
      {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %bit = tensor.extract %bits[%i, %j] : tensor<?x?xi1>
        flash.yield %bit : i1
      } -> tensor<1x2x?x8xf32>, tensor<1x2x?xf32>
  return %o : tensor<1x2x?x8xf32>
}

// Nothing is known of these flags but their range in each tile: few tiles of 64 have none set, or all.
// FLAGS: mask: mapped
// FLAGS-NEXT: because tiles are visited by running the mask, where the range of flags in each tile leaves it open
// FLAGS-NEXT: because its map of {{[0-9]+}} tiles takes {{[0-9]+}} bytes, and the mask is evaluated on up to {{[0-9]+}}; it reads arrays
// FLAGS: unknown: tensor.extract
// FLAGS-NEXT: visits the keys, for queries i0 to i0 + rows - 1
// FLAGS-NEXT: tiles that hold a kept pair
// FLAGS: of 64 tiles
// FLAGS-NEXT: skipped 0
// FLAGS-NEXT: partial 64
func.func @flags(%q: tensor<?x2x?x8xf32>, %k: tensor<?x2x?x8xf32>, %v: tensor<?x2x?x8xf32>,
                 %flags: tensor<?x?xi1> {flash.name = "flags"}) -> tensor<?x2x?x8xf32> {
  %o, %lse = flash.attention ins(%q, %k, %v : tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>, tensor<?x2x?x8xf32>)
      {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = tensor.extract %flags[%b, %j] : tensor<?x?xi1>
        flash.yield %keep : i1
      } -> tensor<?x2x?x8xf32>, tensor<?x2x?xf32>
  return %o : tensor<?x2x?x8xf32>
}
