// RUN: %vary %s | flashc-opt --flash-print-mask-bounds -o /dev/null | FileCheck %s
// RUN: %vary %s | flashc-opt --flash-print-mask-bounds="dual" -o /dev/null | FileCheck %s --check-prefix=DUAL

!q = tensor<1x1x64x8xf32>
!k = tensor<1x1x32x8xf32>
!row = tensor<1x1x64xf32>

// CHECK-LABEL: mask in @causal:
// CHECK-NEXT:  j <= i + %[[S:arg[0-9]+]]
// CHECK-NEXT:  kept [begin, begin + ((i0 + rows + %[[S]] - begin) ceildiv 32) * 32){{$}}
// CHECK-NEXT:  cut [begin + ((i0 + %[[S]] - begin + 1) floordiv 32) * 32, end){{$}}
// CHECK-NEXT:  class exact{{$}}

// EACH
func.func @NAME(%q: !q, %k: !k, %m: !row, %i0: index, %j0: index, %shift: index, %s: index,
    %lengths: tensor<?xindex>, %size: index, %t: index) -> (!q, !row, !row) {
  %c0 = arith.constant 0 : index
  %r:3 = flash.online_attention ins(%q, %k, %k : !q, !k, !k) outs(%q, %m, %m : !q, !row, !row) at(%c0, %c0, %i0, %j0)
      {normalize = #flash.normalize<deferred>, scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        // BODY
        flash.yield %p : i1
      } -> !q, !row, !row
  return %r#0, %r#1, %r#2 : !q, !row, !row
}
// EACH

// The queries of a tile of keys. Those behind the loop's end do not exist.
// DUAL-LABEL: dual of the mask in @causal:
// DUAL-NEXT:  kept [begin + ((j0 - %[[S:arg[0-9]+]] - begin) floordiv 64) * 64, end) if 0 <= end + %[[S]] - j0 - 1
// DUAL-NEXT:  cut [begin, begin + ((j0 + keys - %[[S]] - begin - 1) ceildiv 64) * 64){{$}}
// DUAL-NEXT:  class exact{{$}}
// VARY causal
//     %last = arith.addi %i, %shift : index
//     %p = arith.cmpi sle, %j, %last : index

// Every predicate, either way around; spellings of linear index arithmetic; conditions on i alone.
// CHECK-LABEL: mask in @spellings:
// CHECK-NEXT:  j <= i - 1
// CHECK-NEXT:  j >= i + 1
// CHECK-NEXT:  j = i{{$}}
// CHECK-NEXT:  j >= i - 4
// CHECK-NEXT:  2 * j <= 3 * i + %[[S:arg[0-9]+]] - 1
// CHECK-NEXT:  j <= -i + 8
// CHECK-NEXT:  j >= -8
// CHECK-NEXT:  i >= %[[S]]
// CHECK-NEXT:  kept nothing
// CHECK-NEXT:  cut [
// VARY spellings
//     %c2 = arith.constant 2 : index
//     %c3 = arith.constant 3 : index
//     %c5 = arith.constant 5 : index
//     %c8 = arith.constant 8 : index
//     %lt = arith.cmpi slt, %j, %i : index
//     %gt = arith.cmpi sgt, %j, %i : index
//     %flipped_le = arith.cmpi sle, %i, %j : index
//     %i32 = arith.index_cast %i : index to i32
//     %j32 = arith.index_cast %j : index to i32
//     %in_i32 = arith.cmpi sge, %i32, %j32 : i32
//     %eq = arith.cmpi eq, %i, %j : index
//     %distance = arith.subi %i, %j : index
//     %window = arith.cmpi ult, %distance, %c5 : index
//     %j2 = arith.muli %j, %c2 : index
//     %i3 = arith.muli %c3, %i : index
//     %i3s = affine.apply affine_map<(d0)[s0] -> (d0 + s0)>(%i3)[%s]
//     %factors = arith.cmpi slt, %j2, %i3s : index
//     %sum = arith.addi %i, %j : index
//     %anti = arith.cmpi sle, %sum, %c8 : index
//     %j8 = arith.addi %j, %c8 : index
//     %constant = arith.cmpi sge, %j8, %c0 : index
//     %rows = arith.cmpi sge, %i, %s : index
//     %true = arith.constant true
//     %0 = arith.andi %lt, %gt : i1
//     %1 = arith.andi %0, %flipped_le : i1
//     %2 = arith.andi %1, %in_i32 : i1
//     %3 = arith.andi %2, %eq : i1
//     %4 = arith.andi %3, %window : i1
//     %5 = arith.andi %4, %factors : i1
//     %6 = arith.andi %5, %anti : i1
//     %7 = arith.andi %6, %constant : i1
//     %8 = arith.andi %7, %rows : i1
//     %p = arith.andi %8, %true : i1

// What is not a comparison, or not linear in i and j, is opaque; what does not depend on them is one more captured value.
// CHECK-LABEL: mask in @opaque:
// CHECK-NEXT:  j <= %[[LENGTH:[a-z0-9]+]] - 1
// CHECK-NEXT:  opaque: arith.muli
// CHECK-NEXT:  opaque: tensor.extract of an array that is not declared sorted
// CHECK-NEXT:  opaque: arith.floordivsi by a value that is no constant
// CHECK-NEXT:  kept [begin, begin + ((%[[LENGTH]] - begin) ceildiv 32) * 32)
// CHECK-NEXT:  cut [begin, end)
// CHECK-NEXT:  where %[[LENGTH]] = tensor.extract %{{.*}}[%{{.*}}] : tensor<?xindex>
// CHECK-NEXT:  class conservative: arith.muli, tensor.extract of an array that is not declared sorted, arith.floordivsi by a value that is no constant are not understood
// VARY opaque
//     %length = tensor.extract %lengths[%b] : tensor<?xindex>
//     %inside = arith.cmpi slt, %j, %length : index
//     %product = arith.muli %i, %j : index
//     %nonlinear = arith.cmpi sle, %product, %length : index
//     %other = tensor.extract %lengths[%j] : tensor<?xindex>
//     %lookup = arith.cmpi eq, %other, %length : index
//     %sum = arith.addi %i, %j : index
//     %block = arith.floordivsi %sum, %length : index
//     %blocks = arith.cmpi eq, %block, %c0 : index
//     %1 = arith.andi %inside, %nonlinear : i1
//     %2 = arith.andi %1, %lookup : i1
//     %p = arith.andi %2, %blocks : i1

// A remainder of a captured value.
// CHECK-LABEL: mask in @remainder:
// CHECK:       kept [begin, begin + ((%[[S:arg[0-9]+]] mod 30 - begin) ceildiv 32) * 32) if 0 <= min(i0 + rows - 1, %[[S]])
// VARY remainder
//     %c30 = arith.constant 30 : index
//     %zero = arith.constant 0 : index
//     %either = arith.cmpi sge, %i, %zero : index
//     %x = arith.select %either, %s, %i : index
//     %rest = arith.remsi %x, %c30 : index
//     %p = arith.cmpi slt, %j, %rest : index

// A length of the batch is the same for all queries, in a quotient too: nothing of a row is searched.
// CHECK-LABEL: mask in @blocks_of_batch:
// CHECK-NEXT:  (i - %[[LENGTH:[a-z0-9]+]]) floordiv 48 >= (j - %[[LENGTH]]) floordiv 48
// CHECK:       class exact{{$}}
// VARY blocks_of_batch
//     %c48 = arith.constant 48 : index
//     %length = tensor.extract %lengths[%b] : tensor<?xindex>
//     %x = arith.subi %i, %length : index
//     %y = arith.subi %j, %length : index
//     %block_i = arith.floordivsi %x, %c48 : index
//     %block_j = arith.floordivsi %y, %c48 : index
//     %p = arith.cmpi sle, %block_j, %block_i : index

// The complement of `x and y or not(x) and z` has two cases, not a third one that is neither: three queries see 8 keys,
// the others those from 64 on.
// CHECK-LABEL: mask in @cases:
// CHECK:       kept {{.*}} or [begin + ((-begin) floordiv 32 + 2) * 32, end) if 0 <= i0 + rows - 4{{$}}
// CHECK-NEXT:  cut [begin, begin + ((64 - begin) ceildiv 32) * 32) if 0 <= i0 + rows - 4 or [begin + ((8 - begin) floordiv 32) * 32, end) if 0 <= 2 - i0{{$}}
// CHECK-NEXT:  class exact{{$}}
// VARY cases
//     %c3 = arith.constant 3 : index
//     %c8 = arith.constant 8 : index
//     %c64 = arith.constant 64 : index
//     %early = arith.cmpi slt, %i, %c3 : index
//     %late = arith.cmpi sge, %i, %c3 : index
//     %few = arith.cmpi slt, %j, %c8 : index
//     %far = arith.cmpi sge, %j, %c64 : index
//     %x = arith.andi %early, %few : i1
//     %y = arith.andi %late, %far : i1
//     %p = arith.ori %x, %y : i1

// Chunks of a captured size: where the query's own begins and ends ascends, whatever the size's sign.
// CHECK-LABEL: mask in @captured_chunks:
// CHECK-NEXT:  j >= %[[BEGIN:[0-9]+]]
// CHECK-NEXT:  j <= %[[END:[0-9]+]] - 1
// CHECK-NEXT:  kept [begin + ((%[[BEGIN]][first] - begin) floordiv 32) * 32, begin + ((%[[END]][last] - begin) ceildiv 32) * 32)
// CHECK-NEXT:  cut [begin, begin + ((%[[BEGIN]][last] - begin) ceildiv 32) * 32) or [begin + ((%[[END]][first] - begin) floordiv 32) * 32, end)
// CHECK-NEXT:  where %[[QUOTIENT:[0-9]+]] = arith.floordivsi %{{.*}}, %[[SIZE:arg[0-9]+]] : index
// CHECK:       where %[[IS_POSITIVE:[0-9]+]] = arith.cmpi sgt, %[[SIZE]], %{{.*}} : index
// CHECK:       where %[[CHUNK:[0-9]+]] = arith.muli %[[QUOTIENT]], %[[SIZE]] : index
// CHECK:       where %[[BEGIN]] = arith.select %[[IS_POSITIVE]], %[[CHUNK]],
// CHECK:       where %[[END]] = arith.select %[[IS_POSITIVE]],
// CHECK-NEXT:  class exact{{$}}
// VARY captured_chunks
//     %chunk_i = arith.floordivsi %i, %size : index
//     %chunk_j = arith.floordivsi %j, %size : index
//     %p = arith.cmpi eq, %chunk_j, %chunk_i : index

// Quotients by different sizes say nothing of each other.
// CHECK-LABEL: mask in @two_sizes:
// CHECK:       class opaque: arith.floordivsi by a value that is no constant is not understood
// VARY two_sizes
//     %chunk_i = arith.floordivsi %i, %s : index
//     %chunk_j = arith.floordivsi %j, %t : index
//     %p = arith.cmpi sle, %chunk_j, %chunk_i : index

// Integers narrower than 32 bits and constants wider than that may overflow where positions do not.
// CHECK-LABEL: mask in @overflow:
// CHECK-NEXT:  opaque: arith.index_cast
// CHECK-NEXT:  opaque: arith.cmpi
// CHECK-NEXT:  opaque: arith.addi
// CHECK-NEXT:  opaque: arith.index_cast
// CHECK-NEXT:  kept [begin, end)
// CHECK-NEXT:  cut [begin, end)
// CHECK-NEXT:  class opaque: arith.index_cast, arith.cmpi, arith.addi are not understood
// VARY overflow
//     %ii = arith.index_cast %i : index to i8
//     %jj = arith.index_cast %j : index to i8
//     %narrow = arith.cmpi sle, %jj, %ii : i8
//     %last = arith.constant 9223372036854775807 : index
//     %wide = arith.cmpi sle, %j, %last : index
//     %p1 = arith.andi %narrow, %wide : i1
//     %j16 = arith.index_cast %j : index to i16
//     %large = arith.constant 32700 : i16
//     %zero = arith.constant 0 : i16
//     %sum = arith.addi %j16, %large : i16
//     %wraps = arith.cmpi sgt, %sum, %zero : i16
//     %p = arith.andi %p1, %wraps : i1
