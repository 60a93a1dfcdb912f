// RUN: flashc-opt %s --canonicalize | FileCheck %s

!acc = tensor<64x64xf32, #tile.acc>
!row = tensor<64xf32, #tile.row>
!part = tensor<64xf32, #tile.lane_partial>

//===--------------------------------------------------------------------------------------------------------------===//
// tile.scale_rows
//===--------------------------------------------------------------------------------------------------------------===//

// Zeros stay zeros, of an accumulator and of a lane_partial.
// CHECK-LABEL: func.func @zeros
// CHECK-DAG: %[[ACC:.*]] = arith.constant dense<0.000000e+00> : tensor<64x64xf32, #tile.acc>
// CHECK-DAG: %[[PART:.*]] = arith.constant dense<0.000000e+00> : tensor<64xf32, #tile.lane_partial>
// CHECK-NOT: tile.scale_rows
// CHECK: return %[[ACC]], %[[PART]]
func.func @zeros(%f: !row) -> (!acc, !part) {
  %acc = arith.constant dense<0.0> : !acc
  %part = arith.constant dense<0.0> : !part
  %x = tile.scale_rows %acc, %f : !acc, !row
  %y = tile.scale_rows %part, %f : !part, !row
  return %x, %y : !acc, !part
}

// -0 times a negative factor is 0; integers and other numbers are left alone.
// CHECK-LABEL: func.func @no_zeros
// CHECK-COUNT-4: tile.scale_rows
func.func @no_zeros(%f: !row, %any: !acc) -> (!acc, !acc, tensor<64x64xi32, #tile.acc>, !acc) {
  %negative = arith.constant dense<-0.0> : !acc
  %one = arith.constant dense<1.0> : !acc
  %integer = arith.constant dense<0> : tensor<64x64xi32, #tile.acc>
  %x = tile.scale_rows %negative, %f : !acc, !row
  %y = tile.scale_rows %one, %f : !acc, !row
  %z = tile.scale_rows %integer, %f : tensor<64x64xi32, #tile.acc>, !row
  %u = tile.scale_rows %any, %f : !acc, !row
  return %x, %y, %z, %u : !acc, !acc, tensor<64x64xi32, #tile.acc>, !acc
}

//===--------------------------------------------------------------------------------------------------------------===//
// tile.map: the bounds on j that a conjunction has from one side become one
//===--------------------------------------------------------------------------------------------------------------===//

// j <= i, j < n
// CHECK-LABEL: func.func @two_upper
// CHECK-SAME: %{{.*}}: {{.*}}, %[[N:arg1]]: index
// CHECK: ^bb0(%[[S:.*]]: f32, %[[I:.*]]: index, %[[J:.*]]: index):
// CHECK-NEXT: %[[LAST:.*]] = arith.addi %[[N]], %c-1
// CHECK-NEXT: %[[LIMIT:.*]] = arith.minsi %[[I]], %[[LAST]]
// CHECK-NEXT: %[[KEEP:.*]] = arith.cmpi sle, %[[J]], %[[LIMIT]]
// CHECK-NEXT: arith.select %[[KEEP]]
func.func @two_upper(%x: !acc, %n: index, %c0: index) -> !acc {
  %y = tile.map %x at(%c0, %c0) {
  ^bb0(%s: f32, %i: index, %j: index):
    %cut = arith.constant -1.0 : f32
    %a = arith.cmpi sle, %j, %i : index
    %b = arith.cmpi slt, %j, %n : index
    %ab = arith.andi %a, %b : i1
    %r = arith.select %ab, %s, %cut : f32
    tile.yield %r : f32
  } : !acc
  return %y : !acc
}

// i - n < j, m <= j; the comparison may be written either way round.
// CHECK-LABEL: func.func @two_lower_swapped
// CHECK-SAME: %{{.*}}: {{.*}}, %[[N:arg1]]: index, %[[M:arg2]]: index
// CHECK: ^bb0(%[[S:.*]]: f32, %[[I:.*]]: index, %[[J:.*]]: index):
// CHECK-NEXT: %[[OLDEST:.*]] = arith.subi %[[I]], %[[N]]
// CHECK-NEXT: %[[AFTER:.*]] = arith.addi %[[OLDEST]], %c1
// CHECK-NEXT: %[[LIMIT:.*]] = arith.maxsi %[[AFTER]], %[[M]]
// CHECK-NEXT: %[[KEEP:.*]] = arith.cmpi sge, %[[J]], %[[LIMIT]]
// CHECK-NEXT: arith.select %[[KEEP]]
func.func @two_lower_swapped(%x: !acc, %n: index, %m: index, %c0: index) -> !acc {
  %y = tile.map %x at(%c0, %c0) {
  ^bb0(%s: f32, %i: index, %j: index):
    %cut = arith.constant -1.0 : f32
    %oldest = arith.subi %i, %n : index
    %a = arith.cmpi slt, %oldest, %j : index
    %b = arith.cmpi sle, %m, %j : index
    %ab = arith.andi %a, %b : i1
    %r = arith.select %ab, %s, %cut : f32
    tile.yield %r : f32
  } : !acc
  return %y : !acc
}

// Bounds from both sides and another term, nested in another order: n > j, i >= j, j > m, j >= 0, and s > 0.
// CHECK-LABEL: func.func @both_sides
// CHECK-SAME: %{{.*}}: {{.*}}, %[[N:arg1]]: index, %[[M:arg2]]: index
// CHECK: ^bb0(%[[S:.*]]: f32, %[[I:.*]]: index, %[[J:.*]]: index):
// CHECK-NEXT: %[[POSITIVE:.*]] = arith.cmpf ogt, %[[S]],
// CHECK-NEXT: %[[AFTER:.*]] = arith.addi %[[M]], %c1
// CHECK-NEXT: %[[LOWEST:.*]] = arith.maxsi %[[AFTER]], %c0
// CHECK-NEXT: %[[LOWER:.*]] = arith.cmpi sge, %[[J]], %[[LOWEST]]
// CHECK-NEXT: %[[LAST:.*]] = arith.addi %[[N]], %c-1
// CHECK-NEXT: %[[HIGHEST:.*]] = arith.minsi %[[LAST]], %[[I]]
// CHECK-NEXT: %[[UPPER:.*]] = arith.cmpi sle, %[[J]], %[[HIGHEST]]
// CHECK-NEXT: %[[AND:.*]] = arith.andi %[[POSITIVE]], %[[LOWER]]
// CHECK-NEXT: %[[KEEP:.*]] = arith.andi %[[AND]], %[[UPPER]]
// CHECK-NEXT: arith.select %[[KEEP]]
func.func @both_sides(%x: !acc, %n: index, %m: index) -> !acc {
  %c0 = arith.constant 0 : index
  %y = tile.map %x at(%c0, %c0) {
  ^bb0(%s: f32, %i: index, %j: index):
    %cut = arith.constant -1.0 : f32
    %zero = arith.constant 0.0 : f32
    %a = arith.cmpi sgt, %n, %j : index
    %b = arith.cmpi sge, %i, %j : index
    %c = arith.cmpi sgt, %j, %m : index
    %d = arith.cmpi sge, %j, %c0 : index
    %e = arith.cmpf ogt, %s, %zero : f32
    %ac = arith.andi %a, %c : i1
    %eb = arith.andi %e, %b : i1
    %ebd = arith.andi %eb, %d : i1
    %all = arith.andi %ac, %ebd : i1
    %r = arith.select %all, %s, %cut : f32
    tile.yield %r : f32
  } : !acc
  return %y : !acc
}

// One bound from each side stays as it is.
// CHECK-LABEL: func.func @one_each
// CHECK: arith.cmpi slt, %[[J:.*]], %arg1
// CHECK: arith.cmpi sgt, %[[J]], %
// CHECK: arith.andi
// CHECK-NOT: arith.minsi
func.func @one_each(%x: !acc, %n: index, %c0: index) -> !acc {
  %y = tile.map %x at(%c0, %c0) {
  ^bb0(%s: f32, %i: index, %j: index):
    %cut = arith.constant -1.0 : f32
    %a = arith.cmpi slt, %j, %n : index
    %b = arith.cmpi sgt, %j, %i : index
    %ab = arith.andi %a, %b : i1
    %r = arith.select %ab, %s, %cut : f32
    tile.yield %r : f32
  } : !acc
  return %y : !acc
}

// No bounds: a limit that depends on j, one that depends on the element, one that control flow computes; unsigned
// comparisons. An equality is two. Elements of a row share a bound.
// CHECK-LABEL: func.func @no_bounds
// CHECK: arith.cmpi sle, %[[J:.*]], %
// CHECK: arith.cmpi sle, %[[J]], %
// CHECK: arith.cmpi sle, %[[J]], %
// CHECK: arith.cmpi ule, %[[J]], %
// CHECK: arith.minsi %{{.*}}, %arg1
// CHECK-NOT: arith.minsi
// CHECK: return
func.func @no_bounds(%x: !acc, %n: index, %yes: i1, %list: memref<?xindex>, %c0: index) -> !acc {
  %y = tile.map %x at(%c0, %c0) {
  ^bb0(%s: f32, %i: index, %j: index):
    %cut = arith.constant -1.0 : f32
    %read = memref.load %list[%j] : memref<?xindex>
    %s32 = arith.fptosi %s : f32 to i32
    %element = arith.index_cast %s32 : i32 to index
    %branch = scf.if %yes -> index {
      %double = arith.muli %i, %n : index
      scf.yield %double : index
    } else {
      scf.yield %n : index
    }
    %a = arith.cmpi sle, %j, %read : index
    %b = arith.cmpi sle, %j, %element : index
    %c = arith.cmpi sle, %j, %branch : index
    %d = arith.cmpi ule, %j, %i : index
    %e = arith.cmpi eq, %j, %i : index
    %f = arith.cmpi sle, %j, %n : index
    %ab = arith.andi %a, %b : i1
    %cd = arith.andi %c, %d : i1
    %ef = arith.andi %e, %f : i1
    %abcd = arith.andi %ab, %cd : i1
    %all = arith.andi %abcd, %ef : i1
    %r = arith.select %all, %s, %cut : f32
    tile.yield %r : f32
  } : !acc
  return %y : !acc
}

// A disjunction; a conjunction outside of a tile.map.
// CHECK-LABEL: func.func @other_terms
// CHECK-NOT: arith.minsi
// CHECK: return
func.func @other_terms(%x: !acc, %n: index, %m: index, %c0: index) -> (!acc, i1) {
  %u = arith.cmpi slt, %c0, %n : index
  %v = arith.cmpi slt, %c0, %m : index
  %uv = arith.andi %u, %v : i1
  %y = tile.map %x at(%c0, %c0) {
  ^bb0(%s: f32, %i: index, %j: index):
    %cut = arith.constant -1.0 : f32
    %a = arith.cmpi slt, %j, %n : index
    %b = arith.cmpi slt, %j, %i : index
    %or = arith.ori %a, %b : i1
    %r = arith.select %or, %s, %cut : f32
    tile.yield %r : f32
  } : !acc
  return %y, %uv : !acc, i1
}

// A bound on a function of j is one on j. What it is compared with is brought near first, so that the difference does not
// wrap around: 1073741824 is 2^30.
// CHECK-LABEL: func.func @isolated
// CHECK-DAG: %[[LEAST:.*]] = arith.constant -1073741824 : index
// CHECK: ^bb0(%{{.*}}: f32, %[[I:.*]]: index, %[[J:.*]]: index):
// CHECK: %[[NEAR:.*]] = arith.maxsi %arg1, %[[LEAST]]
// CHECK: %[[OLDEST:.*]] = arith.subi %[[I]], %[[NEAR]]
// CHECK: arith.cmpi sge, %[[J]], %[[OLDEST]]
// CHECK: arith.minsi %arg1, %
// CHECK: %[[N:.*]] = arith.maxsi
// CHECK: %[[SHIFTED:.*]] = arith.subi %[[N]], %[[I]]
// CHECK: arith.cmpi slt, %[[J]], %[[SHIFTED]]
func.func @isolated(%x: !acc, %n: index, %c0: index) -> !acc {
  %y = tile.map %x at(%c0, %c0) {
  ^bb0(%s: f32, %i: index, %j: index):
    %cut = arith.constant -1.0 : f32
    %distance = arith.subi %i, %j : index
    %a = arith.cmpi sle, %distance, %n : index
    %sum = arith.addi %j, %i : index
    %b = arith.cmpi sgt, %n, %sum : index
    %ab = arith.ori %a, %b : i1
    %r = arith.select %ab, %s, %cut : f32
    tile.yield %r : f32
  } : !acc
  return %y : !acc
}

// Chunks of 16: equal quotients are two bounds, here through numbers of 64 bits.
// CHECK-LABEL: func.func @chunks
// CHECK: ^bb0(%{{.*}}: f32, %[[I:.*]]: index, %[[J:.*]]: index):
// CHECK: %[[CHUNK:.*]] = arith.floordivsi %[[I]], %c16
// CHECK: %[[WIDE:.*]] = arith.index_cast %[[CHUNK]] : index to i64
// CHECK: arith.minsi
// CHECK: arith.maxsi
// CHECK: arith.index_cast %{{.*}} : i64 to index
// CHECK-DAG: arith.cmpi sge, %[[J]], %
// CHECK-DAG: arith.cmpi sle, %[[J]], %
// CHECK-NOT: arith.cmpi
// CHECK: return
func.func @chunks(%x: !acc, %c0: index) -> !acc {
  %y = tile.map %x at(%c0, %c0) {
  ^bb0(%s: f32, %i: index, %j: index):
    %c16 = arith.constant 16 : index
    %cut = arith.constant -1.0 : f32
    %mine = arith.floordivsi %i, %c16 : index
    %its = arith.floordivsi %j, %c16 : index
    %mine64 = arith.index_cast %mine : index to i64
    %its64 = arith.index_cast %its : index to i64
    %a = arith.cmpi eq, %mine64, %its64 : i64
    %r = arith.select %a, %s, %cut : f32
    tile.yield %r : f32
  } : !acc
  return %y : !acc
}

//===--------------------------------------------------------------------------------------------------------------===//
// tile.map: magnitudes
//===--------------------------------------------------------------------------------------------------------------===//

// Against a constant without signs: what is of the row takes the constant. Bounds on j stay, as words have them, and so
// does a magnitude below none.
// CHECK-LABEL: func.func @near
// CHECK-DAG: %[[C6:.*]] = arith.constant 6 : index
// CHECK-DAG: %[[C12:.*]] = arith.constant 12 : index
// CHECK: ^bb0(%{{.*}}: f32, %[[I:.*]]: index, %[[J:.*]]: index):
// CHECK: %[[X:.*]] = arith.remui %[[I]]
// CHECK: %[[Y:.*]] = arith.remui %[[J]]
// CHECK: %[[B:.*]] = math.absi %{{.*}} : index
// CHECK: %[[MOVED:.*]] = arith.addi %[[X]], %[[C6]] : index
// CHECK: %[[FROM:.*]] = arith.subi %[[MOVED]], %[[Y]] : index
// CHECK: %[[NEAR:.*]] = arith.cmpi ule, %[[FROM]], %[[C12]] : index
// CHECK: %[[MOVED2:.*]] = arith.addi %[[X]], %[[C6]] : index
// CHECK: %[[FROM2:.*]] = arith.subi %[[MOVED2]], %[[Y]] : index
// CHECK: %[[FAR:.*]] = arith.cmpi ugt, %[[FROM2]], %[[C12]] : index
// CHECK: %[[BETWEEN:.*]] = arith.subi %[[I]], %[[J]] : index
// CHECK: %[[A:.*]] = math.absi %[[BETWEEN]] : index
// CHECK: %[[WINDOW:.*]] = arith.cmpi slt, %[[A]], %{{.*}} : index
// CHECK: %[[NONE:.*]] = arith.cmpi slt, %[[B]], %c-1 : index
// CHECK: func.call @use_conditions(%[[NEAR]], %[[FAR]], %[[WINDOW]], %[[NONE]])
func.func private @use_conditions(i1, i1, i1, i1)
func.func @near(%x: !acc, %c0: index) -> !acc {
  %c7 = arith.constant 7 : index
  %c6 = arith.constant 6 : index
  %c128 = arith.constant 128 : index
  %none = arith.constant -1 : index
  %y = tile.map %x at(%c0, %c0) {
  ^bb0(%s: f32, %i: index, %j: index):
    %r = arith.remui %i, %c128 : index
    %c = arith.remui %j, %c128 : index
    %d = arith.subi %r, %c : index
    %e = arith.subi %c, %r : index
    %a = math.absi %d : index
    %near = arith.cmpi slt, %a, %c7 : index
    %b = math.absi %e : index
    %far = arith.cmpi sgt, %b, %c6 : index
    %between = arith.subi %i, %j : index
    %w = math.absi %between : index
    %window = arith.cmpi slt, %w, %c7 : index
    %never = arith.cmpi slt, %a, %none : index
    func.call @use_conditions(%near, %far, %window, %never) : (i1, i1, i1, i1) -> ()
    tile.yield %s : f32
  } : !acc
  return %y : !acc
}

// The larger one of a number and its negative, on either side; not of others, and not in front of the loop.
// CHECK-LABEL: func.func @magnitudes
// CHECK: ^bb0(%{{.*}}: f32, %[[I:.*]]: index, %[[J:.*]]: index):
// CHECK-DAG: %[[X:.*]] = arith.subi %[[I]], %[[J]] : index
// CHECK-DAG: %[[A:.*]] = math.absi %[[X]] : index
// CHECK-DAG: %[[X64:.*]] = arith.index_cast %[[X]] : index to i64
// CHECK-DAG: %[[B:.*]] = math.absi %[[X64]] : i64
// CHECK-DAG: %[[C:.*]] = arith.maxsi %[[X]], %{{.*}} : index
// CHECK-DAG: %[[D:.*]] = arith.maxsi %[[X]], %{{.*}} : index
// CHECK: func.call @use(%[[A]], %[[B]], %[[C]], %[[D]])
// CHECK: arith.maxsi
// CHECK-NEXT: return
func.func private @use(index, i64, index, index)
func.func @magnitudes(%x: !acc, %c0: index) -> (!acc, index) {
  %zero = arith.constant 0 : index
  %y = tile.map %x at(%c0, %c0) {
  ^bb0(%s: f32, %i: index, %j: index):
    %zero64 = arith.constant 0 : i64
    %one = arith.constant 1 : index
    %distance = arith.subi %i, %j : index
    %minus = arith.subi %zero, %distance : index
    %a = arith.maxsi %distance, %minus : index
    %distance64 = arith.index_cast %distance : index to i64
    %minus64 = arith.subi %zero64, %distance64 : i64
    %b = arith.maxsi %minus64, %distance64 : i64
    %other = arith.subi %zero, %i : index
    %c = arith.maxsi %distance, %other : index
    %back = arith.subi %one, %distance : index
    %d = arith.maxsi %distance, %back : index
    func.call @use(%a, %b, %c, %d) : (index, i64, index, index) -> ()
    tile.yield %s : f32
  } : !acc
  %outside = arith.subi %zero, %c0 : index
  %e = arith.maxsi %c0, %outside : index
  return %y, %e : !acc, index
}
