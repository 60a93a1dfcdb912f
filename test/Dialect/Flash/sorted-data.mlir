// Arrays that are declared sorted: syntax, canonical forms, and the loops that searches become.
// RUN: flashc-opt %s | flashc-opt | FileCheck %s --check-prefix=OPS
// RUN: flashc-opt %s --canonicalize --cse | FileCheck %s --check-prefix=CANON
// RUN: flashc-opt %s --flash-decompose --canonicalize --cse | FileCheck %s --check-prefix=LOOP --implicit-check-not=flash.

// OPS-LABEL: func @count(
// OPS:         %[[S:.*]] = flash.assume_sorted %{{.*}} : tensor<2x?xi32>
// OPS:         flash.count_le %{{.*}} in %[[S]][%{{.*}}] : i64, tensor<2x?xi32>
//
// The bits of the extent, the highest first; a step behind the end reads the last element and is not taken.
// LOOP-LABEL: func @count(
// LOOP-SAME:      %[[A:[^:]*]]: tensor<2x?xi32>, %[[VALUE:[^:]*]]: i64, %[[B:[^:]*]]: index)
// LOOP-DAG:     %[[N:.*]] = tensor.dim %[[A]], %c1
// LOOP-DAG:     %[[N64:.*]] = arith.index_cast %[[N]] : index to i64
// LOOP-DAG:     %[[ZEROS:.*]] = math.ctlz %[[N64]] : i64
// LOOP-DAG:     %[[BITS64:.*]] = arith.subi %c64_i64, %[[ZEROS]]
// LOOP-DAG:     %[[BITS:.*]] = arith.index_cast %[[BITS64]] : i64 to index
// LOOP:         %[[RESULT:.*]] = scf.for %[[BIT:.*]] = %c0 to %[[BITS]] step %c1 iter_args(%[[COUNT:.*]] = %c0)
// LOOP:           %[[STEP:.*]] = arith.shli %c1, %
// LOOP:           %[[NEXT:.*]] = arith.addi %[[COUNT]], %[[STEP]]
// LOOP:           %[[NEAR:.*]] = arith.minsi %[[NEXT]], %[[N]]
// LOOP:           %[[LAST:.*]] = arith.subi %[[NEAR]], %c1
// LOOP:           %[[ELEMENT:.*]] = tensor.extract %[[A]][%[[B]], %[[LAST]]]
// LOOP:           %[[WIDE:.*]] = arith.extsi %[[ELEMENT]] : i32 to i64
// LOOP:           %[[COUNTED:.*]] = arith.cmpi sle, %[[WIDE]], %[[VALUE]] : i64
// LOOP:           %[[EXISTS:.*]] = arith.cmpi sle, %[[NEXT]], %[[N]] : index
// LOOP:           %[[TAKEN:.*]] = arith.andi %[[EXISTS]], %[[COUNTED]]
// LOOP:           arith.select %[[TAKEN]], %[[NEXT]], %[[COUNT]]
// LOOP:         return %[[RESULT]]
func.func @count(%a: tensor<2x?xi32>, %value: i64, %b: index) -> index {
  %s = flash.assume_sorted %a : tensor<2x?xi32>
  %n = flash.count_le %value in %s[%b] : i64, tensor<2x?xi32>
  return %n : index
}

// Few elements, whose number is known: no loop. An index and up to 32 bits meet as indices.
// OPS-LABEL: func @count_few(
// OPS:         flash.count_le %{{.*}} in %{{.*}} : index, memref<3xi16>
// LOOP-LABEL: func @count_few(
// LOOP-NOT:     scf.for
// LOOP:         memref.load %{{.*}}[%c1]
// LOOP:         arith.index_cast %{{.*}} : i16 to index
// LOOP:         memref.load
// LOOP-NOT:     memref.load
// LOOP:         return
func.func @count_few(%a: memref<3xi16>, %value: index) -> index {
  %s = flash.assume_sorted %a : memref<3xi16>
  %n = flash.count_le %value in %s : index, memref<3xi16>
  return %n : index
}

// How many are less: the same with another comparison.
// OPS-LABEL: func @count_less(
// OPS:         flash.count_le %{{.*}} in %{{.*}} {strict} : i16, memref<3xi16>
// LOOP-LABEL: func @count_less(
// LOOP-SAME:      %[[VALUE:[^:]*]]: i16)
// LOOP-COUNT-2: arith.cmpi slt, %{{.*}}, %[[VALUE]] : i16
// LOOP-NOT:     arith.cmpi sle, %{{.*}}, %[[VALUE]]
func.func @count_less(%a: memref<3xi16>, %value: i16) -> index {
  %s = flash.assume_sorted %a : memref<3xi16>
  %n = flash.count_le %value in %s {strict} : i16, memref<3xi16>
  return %n : index
}

// OPS-LABEL: func @nth(
// OPS:         flash.nth %{{.*}} in %{{.*}} : tensor<?xi64>
// LOOP-LABEL: func @nth(
// LOOP-SAME:      %[[A:[^:]*]]: tensor<?xi64>, %[[POSITION:[^:]*]]: index)
// LOOP-DAG:     %[[NEAR_FIRST:.*]] = arith.constant -536870912 : i64
// LOOP-DAG:     %[[NEAR_LAST:.*]] = arith.constant 536870912 : i64
// LOOP-DAG:     %[[FIRST:.*]] = arith.constant -536870912 : index
// LOOP-DAG:     %[[LAST:.*]] = arith.constant 536870912 : index
// LOOP:         %[[N:.*]] = tensor.dim %[[A]]
// LOOP:         %[[MIN:.*]] = arith.minsi %[[POSITION]], %
// LOOP:         %[[AT:.*]] = arith.maxsi %[[MIN]], %c0
// LOOP:         %[[ELEMENT:.*]] = tensor.extract %[[A]][%[[AT]]]
// LOOP:         %[[BELOW:.*]] = arith.minsi %[[ELEMENT]], %[[NEAR_LAST]]
// LOOP:         %[[ABOVE:.*]] = arith.maxsi %[[BELOW]], %[[NEAR_FIRST]]
// LOOP:         %[[INDEX:.*]] = arith.index_cast %[[ABOVE]]
// LOOP-DAG:     %[[BEFORE:.*]] = arith.cmpi slt, %[[POSITION]], %c0
// LOOP-DAG:     %[[BEHIND:.*]] = arith.cmpi sge, %[[POSITION]], %[[N]]
// LOOP:         %[[LOW:.*]] = arith.select %[[BEFORE]], %[[FIRST]], %[[INDEX]]
// LOOP:         arith.select %[[BEHIND]], %[[LAST]], %[[LOW]]
func.func @nth(%a: tensor<?xi64>, %position: index) -> index {
  %s = flash.assume_sorted %a : tensor<?xi64>
  %x = flash.nth %position in %s : tensor<?xi64>
  return %x : index
}

// CANON-LABEL: func @promised_twice(
// CANON-SAME:      %[[A:[^:]*]]: tensor<?xi32>)
// CANON:         %[[S:.*]] = flash.assume_sorted %[[A]]
// CANON-NOT:     flash.assume_sorted
// CANON:         %[[N:.*]] = tensor.dim %[[A]]
// CANON:         return %[[S]], %[[N]]
func.func @promised_twice(%a: tensor<?xi32>) -> (tensor<?xi32>, index) {
  %c0 = arith.constant 0 : index
  %s = flash.assume_sorted %a : tensor<?xi32>
  %t = flash.assume_sorted %s : tensor<?xi32>
  %n = tensor.dim %t, %c0 : tensor<?xi32>
  return %t, %n : tensor<?xi32>, index
}

// On tensors a search is a function of its operands; on memrefs it reads what may change.
// CANON-LABEL: func @effects(
// CANON:         %[[X:.*]] = flash.count_le %{{.*}} in %{{.*}} : index, tensor<?xi32>
// CANON-NOT:     tensor<?xi32>
// CANON:         %[[Y:.*]] = flash.count_le %{{.*}} in %{{.*}} : index, memref<?xi32>
// CANON:         memref.store
// CANON:         %[[Z:.*]] = flash.count_le %{{.*}} in %{{.*}} : index, memref<?xi32>
// CANON:         return %[[X]], %[[X]], %[[Y]], %[[Z]]
func.func @effects(%a: tensor<?xi32>, %m: memref<?xi32>, %i: index, %x: i32) -> (index, index, index, index) {
  %s = flash.assume_sorted %a : tensor<?xi32>
  %t = flash.assume_sorted %m : memref<?xi32>
  %0 = flash.count_le %i in %s : index, tensor<?xi32>
  %1 = flash.count_le %i in %s : index, tensor<?xi32>
  %2 = flash.count_le %i in %t : index, memref<?xi32>
  memref.store %x, %m[%i] : memref<?xi32>
  %3 = flash.count_le %i in %t : index, memref<?xi32>
  return %0, %1, %2, %3 : index, index, index, index
}

!t = tensor<1x1x?x8xf32>
!r = tensor<1x1x?xf32>

// The search for every key becomes two reads for every query.
// CANON-LABEL: func @same_segment(
// CANON:         mask (%{{.*}}: index, %{{.*}}: index, %[[I:.*]]: index, %[[J:.*]]: index)
// CANON-NEXT:      %[[S:.*]] = flash.assume_sorted
// CANON-NEXT:      %[[SEGMENT:.*]] = flash.count_le %[[I]] in %[[S]]
// CANON-NEXT:      %[[BEFORE:.*]] = arith.addi %[[SEGMENT]], %c-1
// CANON-NEXT:      %[[FIRST:.*]] = flash.nth %[[BEFORE]] in %[[S]] : tensor<?xi32>
// CANON-NEXT:      %[[FROM:.*]] = arith.cmpi sge, %[[J]], %[[FIRST]]
// CANON-NEXT:      %[[END:.*]] = flash.nth %[[SEGMENT]] in %[[S]] : tensor<?xi32>
// CANON-NEXT:      %[[TO:.*]] = arith.cmpi slt, %[[J]], %[[END]]
// CANON-NEXT:      %[[KEEP:.*]] = arith.andi %[[FROM]], %[[TO]]
// CANON-NEXT:      flash.yield %[[KEEP]]
func.func @same_segment(%q: !t, %offsets: tensor<?xi32>) -> !t {
  %o, %lse = flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %s = flash.assume_sorted %offsets : tensor<?xi32>
        %m = flash.count_le %i in %s : index, tensor<?xi32>
        %n = flash.count_le %j in %s : index, tensor<?xi32>
        %keep = arith.cmpi eq, %m, %n : index
        flash.yield %keep : i1
      } -> !t, !r
  return %o : !t
}

// Every comparison, on either side, with a shift: segment = count - 1.
// CANON-LABEL: func @comparisons(
// CANON:         mask (%{{.*}}: index, %{{.*}}: index, %[[I:.*]]: index, %[[J:.*]]: index)
// CANON-DAG:       %[[I1:.*]] = arith.addi %[[I]], %c1
// CANON-DAG:       %[[AT_I:.*]] = flash.nth %[[I]] in
// CANON-DAG:       %[[AT_I1:.*]] = flash.nth %[[I1]] in
// CANON-DAG:       arith.cmpi slt, %[[J]], %[[AT_I1]]
// CANON-DAG:       arith.cmpi slt, %[[J]], %[[AT_I]]
// CANON-DAG:       arith.cmpi sge, %[[J]], %[[AT_I]]
// CANON-DAG:       arith.cmpi sge, %[[J]], %[[AT_I1]]
// CANON:         flash.yield
func.func @comparisons(%q: !t, %offsets: tensor<?xi32>) -> !t {
  %c1 = arith.constant 1 : index
  %o, %lse = flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %s = flash.assume_sorted %offsets : tensor<?xi32>
        %n = flash.count_le %j in %s : index, tensor<?xi32>
        %segment = arith.subi %n, %c1 : index
        %le = arith.cmpi sle, %segment, %i : index
        %lt = arith.cmpi slt, %segment, %i : index
        %ge = arith.cmpi sle, %i, %segment : index
        %gt = arith.cmpi slt, %i, %segment : index
        %0 = arith.xori %le, %lt : i1
        %1 = arith.xori %0, %ge : i1
        %2 = arith.xori %1, %gt : i1
        flash.yield %2 : i1
      } -> !t, !r
  return %o : !t
}

// The same of the offsets that are less: a key at the next offset is not among them.
// CANON-LABEL: func @strict_comparisons(
// CANON:         mask (%{{.*}}: index, %{{.*}}: index, %[[I:.*]]: index, %[[J:.*]]: index)
// CANON-DAG:       %[[BEFORE:.*]] = arith.addi %[[I]], %c-1
// CANON-DAG:       %[[AT_I:.*]] = flash.nth %[[I]] in
// CANON-DAG:       %[[AT_BEFORE:.*]] = flash.nth %[[BEFORE]] in
// CANON-DAG:       arith.cmpi sle, %[[J]], %[[AT_I]]
// CANON-DAG:       arith.cmpi sgt, %[[J]], %[[AT_BEFORE]]
// CANON:         flash.yield
func.func @strict_comparisons(%q: !t, %offsets: tensor<?xi32>) -> !t {
  %o, %lse = flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %s = flash.assume_sorted %offsets : tensor<?xi32>
        %n = flash.count_le %j in %s {strict} : index, tensor<?xi32>
        %le = arith.cmpi sle, %n, %i : index
        %ge = arith.cmpi sge, %n, %i : index
        %keep = arith.xori %le, %ge : i1
        flash.yield %keep : i1
      } -> !t, !r
  return %o : !t
}

// Not the key's position itself, both sides of the key, unsigned, and not in a mask: searched.
// CANON-LABEL: func @searched(
// CANON-COUNT-3: flash.count_le
// CANON-NOT:     flash.nth
func.func @searched(%q: !t, %offsets: tensor<?xi32>, %x: index) -> (!t, i1) {
  %c2 = arith.constant 2 : index
  %s = flash.assume_sorted %offsets : tensor<?xi32>
  %o, %lse = flash.attention ins(%q, %q, %q : !t, !t, !t) {scale = 1.0 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %j2 = arith.muli %j, %c2 : index
        %n = flash.count_le %j in %s : index, tensor<?xi32>
        %n2 = flash.count_le %j2 in %s : index, tensor<?xi32>
        %0 = arith.cmpi eq, %n2, %i : index
        %1 = arith.cmpi eq, %n, %j2 : index
        %2 = arith.cmpi ule, %n, %i : index
        %3 = arith.andi %0, %1 : i1
        %4 = arith.andi %2, %3 : i1
        flash.yield %4 : i1
      } -> !t, !r
  %n = flash.count_le %x in %s : index, tensor<?xi32>
  %keep = arith.cmpi eq, %n, %c2 : index
  return %o, %keep : !t, i1
}

// A search over the first tiles of segments, and the segment's ends.
// OPS-LABEL: func @segment_tile(
// OPS:         flash.segment_tile %{{.*}} of %{{.*}}[%{{.*}}] length %{{.*}} tiles 16 : tensor<2x?xi64>
// LOOP-LABEL: func @segment_tile(
// LOOP-SAME:      %[[A:[^:]*]]: tensor<2x?xi64>, %[[TILE:[^:]*]]: index, %[[B:[^:]*]]: index, %[[N:[^:]*]]: index)
// LOOP:         %[[SEGMENT:.*]] = scf.for
// LOOP:           tensor.extract %[[A]][%[[B]],
// LOOP:           %[[BEGIN:.*]] = arith.maxsi %{{.*}}, %c0
// LOOP:           %[[FIRST:.*]] = arith.divui %[[BEGIN]], %c16
// LOOP:           %[[NUMBER:.*]] = arith.addi %[[FIRST]],
// LOOP:           arith.cmpi sle, %[[NUMBER]], %[[TILE]]
// LOOP:         return %{{.*}}, %{{.*}}, %[[SEGMENT]]
func.func @segment_tile(%a: tensor<2x?xi64>, %tile: index, %b: index, %n: index) -> (index, index, index) {
  %s = flash.assume_sorted %a : tensor<2x?xi64>
  %begin, %size, %segment = flash.segment_tile %tile of %s[%b] length %n tiles 16 : tensor<2x?xi64>
  return %begin, %size, %segment : index, index, index
}
