// With own-keys where the bounds of a mask read arrays: the list of work has the visits of each consumer's 64 rows, which
// are run for many sequences and documents against the rule of the mask.
// DEFINE: %{before} = --flash-tabulate-rows --flash-online-softmax --canonicalize --cse
// DEFINE: %{behind} = --flash-bound-loops --flash-parallelize --canonicalize --cse
// DEFINE: %{list} = --canonicalize --cse --tile-order --canonicalize --cse
// RUN: %vary %s | flashc-opt --split-input-file %{before} --flash-tile="q-tile=192 kv-tile=128" --flash-swap-loops --flash-align-queries --canonicalize --cse %{behind} --convert-flash-to-tile=schedule=consumers=3,kv-tile=128,stages=4,own-keys=true %{list} > %t.aligned
// RUN: FileCheck %s < %t.aligned
// RUN: %python %S/Inputs/run_own_list.py packed packed_causal packed_window packed_apart < %t.aligned | FileCheck %s --check-prefix=ALIGNED
// RUN: %vary %s | flashc-opt --split-input-file %{before} --flash-tile="q-tile=128 kv-tile=80" --flash-swap-loops --canonicalize --cse %{behind} --convert-flash-to-tile=schedule=consumers=2,kv-tile=80,stages=4,own-keys=true %{list} > %t.grid
// RUN: FileCheck %s --check-prefix=GRIDIR < %t.grid
// RUN: %python %S/Inputs/run_own_list.py packed_causal packed packed_window packed_apart documents documents_causal padded_causal < %t.grid | FileCheck %s --check-prefix=GRID
// RUN: %vary %s | not flashc-opt --split-input-file %{before} --flash-tile="q-tile=128 kv-tile=80" --flash-swap-loops --canonicalize --cse %{behind} --convert-flash-to-tile=schedule=consumers=2,kv-tile=80,own-keys=true,persistent=false 2>&1 | FileCheck %s --check-prefix=NOLIST
// NOLIST-COUNT-7: error: schedule: expected persistent=true for own-keys of a mask whose bounds read arrays: the work list has the bounds of each consumer

// What consumers visit and need not is what rows that see nothing visit, one tile each: where tiles of queries follow
// sequences, of the last tile of a sequence those behind its end.
// ALIGNED:      packed_causal visits 451 kept 190 masked 393 cut 132 all 495
// ALIGNED-NEXT: packed visits 491 kept 230 masked 381 cut 120 all 501
// ALIGNED-NEXT: packed_window visits 440 kept 174 masked 412 cut 146 all 471
// ALIGNED-NEXT: packed_apart visits 482 kept 191 masked 440 cut 149 all 510
// GRID:         packed_causal visits 230 kept 227 masked 158 cut 155 all 284
// GRID-NEXT:    packed visits 299 kept 296 masked 148 cut 145 all 340
// GRID-NEXT:    packed_window visits 209 kept 206 masked 161 cut 158 all 256
// GRID-NEXT:    packed_apart visits 246 kept 235 masked 173 cut 162 all 290
// GRID-NEXT:    documents visits 110 kept 108 masked 85 cut 83 all 126
// GRID-NEXT:    documents_causal visits 92 kept 90 masked 84 cut 82 all 114
// GRID-NEXT:    padded_causal visits 236 kept 233 masked 61 cut 58 all 248

// All rows of a tile that follows sequences see the begin of theirs: a consumer leaves out tiles in front only, and masks
// none behind. What is its own are two numbers, after those that all have: with the tile's place and bounds, where the keys
// of its sequence begin and end.
// CHECK-LABEL: gpu.func @packed_causal(
// CHECK-SAME:    own-keys=true,heads=1,splits=1"
// CHECK:         tile.program 3 grid({{.*}}) list({{.*}}) by <list numbers 7 own 2> {
// CHECK:         %[[TOTAL:.*]] = arith.maxsi %{{.*}}, %c1
// CHECK-DAG:     %[[FIRST:.*]] = tile.list_number 7
// CHECK-DAG:     %[[FULL:.*]] = tile.list_number 8
// CHECK:         %[[BEGIN:.*]], %[[END:.*]] = tile.own_visits %[[FIRST]] to %[[TOTAL]] of %[[TOTAL]] listed
// CHECK:         tile.advance_ring %[[BEGIN]] of
// CHECK:         scf.for %[[U:.*]] = %[[BEGIN]] to %[[END]]
// CHECK:           tile.outside %[[U]] of[%[[FULL]], %[[TOTAL]])
// CHECK-NOT:     tile.advance_ring
// CHECK-LABEL: gpu.func @packed_causal_order(

// Other rows are of other documents.
// GRIDIR-LABEL: gpu.func @documents(
// GRIDIR:         tile.program 2 grid({{.*}}) list({{.*}}) by <list numbers 4 own 4> {
// GRIDIR-DAG:     %[[FIRST:.*]] = tile.list_number 4
// GRIDIR-DAG:     %[[LAST:.*]] = tile.list_number 5
// GRIDIR-DAG:     %[[FULLBEGIN:.*]] = tile.list_number 6
// GRIDIR-DAG:     %[[FULLEND:.*]] = tile.list_number 7
// GRIDIR:         %[[BEGIN:.*]], %[[END:.*]] = tile.own_visits %[[FIRST]] to %[[LAST]] of %[[TOTAL:.*]] listed
// GRIDIR:         tile.advance_ring %[[BEGIN]] of
// GRIDIR:           tile.outside %{{.*}} of[%[[FULLBEGIN]], %[[FULLEND]])
// GRIDIR:         %[[REST:.*]] = arith.subi %[[TOTAL]], %[[END]]
// GRIDIR:         tile.advance_ring %[[REST]] of

!t = tensor<1x1x?x64xbf16>
func.func @NAME(%q: !t, %k: !t, %v: !t, %array: tensor<?xi32>) -> !t {
  %c1 = arith.constant 1 : index
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %past = arith.cmpi sle, %j, %i : index
        %keep = arith.andi %past, %past : i1 // BODY
        flash.yield %keep : i1
      } -> !t, tensor<1x1x?xf32>
  return %o : !t
}

// VARY packed_causal
//     %starts = flash.assume_sorted %array : tensor<?xi32>
//     %next = flash.count_le %i in %starts : index, tensor<?xi32>
//     %number = arith.subi %next, %c1 : index
//     %begin = flash.nth %number in %starts : tensor<?xi32>
//     %behind = arith.cmpi sge, %j, %begin : index
//     %keep = arith.andi %behind, %past : i1
// VARY packed
//     %starts = flash.assume_sorted %array : tensor<?xi32>
//     %next = flash.count_le %i in %starts : index, tensor<?xi32>
//     %number = arith.subi %next, %c1 : index
//     %begin = flash.nth %number in %starts : tensor<?xi32>
//     %behind = arith.cmpi sge, %j, %begin : index
//     %end = flash.nth %next in %starts : tensor<?xi32>
//     %ahead = arith.cmpi slt, %j, %end : index
//     %keep = arith.andi %behind, %ahead : i1
// VARY packed_window
//     %starts = flash.assume_sorted %array : tensor<?xi32>
//     %next = flash.count_le %i in %starts : index, tensor<?xi32>
//     %number = arith.subi %next, %c1 : index
//     %begin = flash.nth %number in %starts : tensor<?xi32>
//     %behind = arith.cmpi sge, %j, %begin : index
//     %c255 = arith.constant 255 : index
//     %first = arith.subi %i, %c255 : index
//     %near = arith.cmpi sge, %j, %first : index
//     %both = arith.andi %past, %near : i1
//     %keep = arith.andi %behind, %both : i1
// VARY packed_apart
//     %starts = flash.assume_sorted %offsets : tensor<?xi32>
//     %key_starts = flash.assume_sorted %key_offsets : tensor<?xi32>
//     %next = flash.count_le %i in %starts : index, tensor<?xi32>
//     %number = arith.subi %next, %c1 : index
//     %begin = flash.nth %number in %key_starts : tensor<?xi32>
//     %key_end = flash.nth %next in %key_starts : tensor<?xi32>
//     %end = flash.nth %next in %starts : tensor<?xi32>
//     %shift = arith.subi %key_end, %end : index
//     %position = arith.addi %i, %shift : index
//     %c255 = arith.constant 255 : index
//     %c100 = arith.constant 100 : index
//     %first = arith.subi %position, %c255 : index
//     %last = arith.addi %position, %c100 : index
//     %behind = arith.cmpi sge, %j, %begin : index
//     %ahead = arith.cmpi slt, %j, %key_end : index
//     %inside = arith.andi %behind, %ahead : i1
//     %above = arith.cmpi sge, %j, %first : index
//     %below = arith.cmpi sle, %j, %last : index
//     %near = arith.andi %above, %below : i1
//     %keep = arith.andi %inside, %near : i1
//   %array: tensor<?xi32> => %offsets: tensor<?xi32>, %key_offsets: tensor<?xi32>
// VARY documents
//     %sorted = flash.assume_sorted %array : tensor<?xi32>
//     %x = tensor.extract %sorted[%i] : tensor<?xi32>
//     %y = tensor.extract %sorted[%j] : tensor<?xi32>
//     %keep = arith.cmpi eq, %x, %y : i32
// VARY documents_causal
//     %sorted = flash.assume_sorted %array : tensor<?xi32>
//     %x = tensor.extract %sorted[%i] : tensor<?xi32>
//     %y = tensor.extract %sorted[%j] : tensor<?xi32>
//     %same = arith.cmpi eq, %x, %y : i32
//     %keep = arith.andi %same, %past : i1
// VARY padded_causal
//     %c0 = arith.constant 0 : index
//     %read = tensor.extract %array[%c0] : tensor<?xi32>
//     %length = arith.index_cast %read : i32 to index
//     %exists = arith.cmpi slt, %j, %length : index
//     %keep = arith.andi %exists, %past : i1
