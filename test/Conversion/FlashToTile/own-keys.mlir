// With own-keys a consumer visits the tiles of keys that its own 64 rows see.
// DEFINE: %{l1} = --flash-online-softmax --flash-tile="q-tile=192 kv-tile=128" --canonicalize --cse --flash-swap-loops --flash-bound-loops --flash-parallelize --canonicalize --cse
// DEFINE: %{tile} = --convert-flash-to-tile=schedule=consumers=3,kv-tile=128,stages=4,persistent=false,own-keys=true --canonicalize --cse
// DEFINE: %{list} = --convert-flash-to-tile=schedule=consumers=3,kv-tile=128,stages=4,own-keys=true --canonicalize --cse
// RUN: split-file %s %t
// RUN: flashc-opt %t/causal.mlir %{l1} %{tile} | FileCheck %s --check-prefix=CAUSAL
// RUN: flashc-opt %t/window.mlir %{l1} %{tile} | FileCheck %s --check-prefix=WINDOW
// RUN: flashc-opt %t/whole.mlir %{l1} %{tile} | FileCheck %s --check-prefix=WHOLE
// RUN: flashc %t/whole.mlir --emit=tile --schedule-table=%t/own.txt | FileCheck %s --check-prefixes=WHOLE,TABLE
// RUN: flashc %t/whole.mlir --schedule-table=%t/own.txt --print-decisions -o %t/whole.ptx 2>&1 | FileCheck %s --check-prefix=DECISIONS
// DECISIONS: own-keys = false (row, but known extents leave no loop with a mask)
// RUN: not flashc-opt %t/prefix.mlir %{l1} %{tile} 2>&1 | FileCheck %s --check-prefix=REFUSED
// RUN: not flashc-opt %t/padding.mlir %{l1} %{tile} 2>&1 | FileCheck %s --check-prefix=REFUSED
// RUN: not flashc-opt %t/lengths.mlir %{l1} %{tile} 2>&1 | FileCheck %s --check-prefix=NOLIST
// RUN: not flashc-opt %t/windows.mlir %{l1} %{tile} 2>&1 | FileCheck %s --check-prefix=REFUSED
// RUN: not flashc-opt %t/read-padding.mlir %{l1} %{list} 2>&1 | FileCheck %s --check-prefix=REFUSED
// RUN: not flashc-opt %t/shared-prefix.mlir %{l1} %{list} 2>&1 | FileCheck %s --check-prefix=REFUSED
// RUN: not flashc-opt %t/unsorted.mlir %{l1} %{list} 2>&1 | FileCheck %s --check-prefix=REFUSED
// Known extents leave L1 a mask that says the same for all rows: own keys were chosen before.
// RUN: flashc-opt %t/constant.mlir %{l1} --convert-flash-to-tile --canonicalize --cse | FileCheck %s --check-prefix=CONSTANT
// REFUSED: error: schedule: expected a mask with one interval of keys that moves with the query for own-keys (and, if its bounds read no array, intervals that are the same for all queries)
// NOLIST: error: schedule: expected persistent=true for own-keys of a mask whose bounds read arrays: the work list has the bounds of each consumer

// The first tiles, where the keys begin, are all rows' own: nothing is left out behind.
// CAUSAL-LABEL: gpu.func @causal(
// CAUSAL:         %[[ROW:.*]] = arith.addi %{{.*}}, %{{.*}} : index
// The tiles up to the first key behind those of the own rows: 64 on, and up.
// CAUSAL:         arith.addi %[[ROW]], %c191
// CAUSAL-NEXT:    arith.shrsi %{{.*}}, %c7
// CAUSAL:         %[[FIRST:.*]] = tile.uniform
// CAUSAL:         %[[FULL:.*]] = tile.uniform
// CAUSAL:         %[[BEGIN:.*]], %[[END:.*]] = tile.own_visits %[[FIRST]] to %[[TOTAL:.*]] of %[[TOTAL]]
// CAUSAL:         tile.advance_ring %[[BEGIN]] of %{{.*}}, %{{.*}} : !tile.ring<4, 128, 64, bf16>, !tile.ring<4, 128, 64, bf16>
// CAUSAL:         scf.for %[[U:.*]] = %[[BEGIN]] to %[[END]] step
// CAUSAL:           tile.outside %[[U]] of[%[[FULL]], %[[TOTAL]])
// CAUSAL-NOT:     tile.advance_ring

// WINDOW-LABEL: gpu.func @window(
// WINDOW:         %[[FIRST:.*]] = tile.uniform
// WINDOW:         %[[LAST:.*]] = tile.uniform
// WINDOW:         %[[FULLBEGIN:.*]] = tile.uniform
// WINDOW:         %[[FULLEND:.*]] = tile.uniform
// WINDOW:         %[[BEGIN:.*]], %[[END:.*]] = tile.own_visits %[[FIRST]] to %[[LAST]] of %[[TOTAL:.*]]
// WINDOW:         tile.advance_ring %[[BEGIN]] of
// WINDOW:         scf.for %[[U:.*]] = %[[BEGIN]] to %[[END]] step
// WINDOW:           tile.outside %[[U]] of[%[[FULLBEGIN]], %[[FULLEND]])
// WINDOW:         %[[REST:.*]] = arith.subi %[[TOTAL]], %[[END]]
// WINDOW:         tile.advance_ring %[[REST]] of

// The extents say that all keys are kept: no loop has the mask, and all consumers make all visits. If no override gives
// own-keys, the schedule says so.
// WHOLE-LABEL: gpu.func @whole(
// TABLE-SAME:    own-keys=false
// WHOLE-NOT:     tile.own_visits

// And that each row sees all keys, in a tile that sticks out of them: the mask is there, but says the same for all rows.
// CONSTANT-LABEL: gpu.func @constant(
// CONSTANT-NOT:     tile.own_visits
// CONSTANT:         tile.map

//--- causal.mlir
!t = tensor<1x2x?x64xbf16>
func.func @causal(%q: !t, %k: !t, %v: !t) -> !t {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi sle, %j, %i : index
        flash.yield %keep : i1
      } -> !t, tensor<1x2x?xf32>
  return %o : !t
}

//--- window.mlir
!t = tensor<1x2x?x64xbf16>
func.func @window(%q: !t, %k: !t, %v: !t) -> !t {
  %c1000 = arith.constant 1000 : index
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %first = arith.subi %i, %c1000 : index
        %past = arith.cmpi sle, %j, %i : index
        %near = arith.cmpi sgt, %j, %first : index
        %keep = arith.andi %past, %near : i1
        flash.yield %keep : i1
      } -> !t, tensor<1x2x?xf32>
  return %o : !t
}

//--- whole.mlir
!t = tensor<1x2x192x64xbf16>
!k = tensor<1x2x256x64xbf16>
func.func @whole(%q: !t, %k: !k, %v: !k) -> !t {
  %c1000 = arith.constant 1000 : index
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !k, !k) {scale = 0.125 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %last = arith.addi %i, %c1000 : index
        %keep = arith.cmpi sle, %j, %last : index
        flash.yield %keep : i1
      } -> !t, tensor<1x2x192xf32>
  return %o : !t
}

//--- own.txt
d<=64 dv<=64: consumers=3,kv-tile=128,stages=4,own-keys=true
//--- constant.mlir
!t = tensor<1x2x200x64xbf16>
!k = tensor<1x2x100x64xbf16>
func.func @constant(%q: !t, %k: !k, %v: !k) -> !t attributes {flashc.schedule = {consumers = 3, "kv-tile" = 128, stages = 4, persistent = false, "own-keys" = true}} {
  %c300 = arith.constant 300 : index
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !k, !k) {scale = 0.125 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %ahead = arith.cmpi sge, %j, %i : index
        %sink = arith.cmpi slt, %j, %c300 : index
        %keep = arith.ori %ahead, %sink : i1
        flash.yield %keep : i1
      } -> !t, tensor<1x2x200xf32>
  return %o : !t
}

// The interval that moves begins where the other one does: rows see one that ends at the greater of two keys.
//--- prefix.mlir
!t = tensor<1x2x?x64xbf16>
func.func @prefix(%q: !t, %k: !t, %v: !t) -> !t {
  %c100 = arith.constant 100 : index
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %past = arith.cmpi sle, %j, %i : index
        %prefix = arith.cmpi slt, %j, %c100 : index
        %keep = arith.ori %past, %prefix : i1
        flash.yield %keep : i1
      } -> !t, tensor<1x2x?xf32>
  return %o : !t
}

// Two intervals that move.
//--- windows.mlir
!t = tensor<1x2x?x64xbf16>
func.func @windows(%q: !t, %k: !t, %v: !t) -> !t {
  %c500 = arith.constant 500 : index
  %c1000 = arith.constant 1000 : index
  %c1100 = arith.constant 1100 : index
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %first = arith.subi %i, %c1100 : index
        %last = arith.subi %i, %c1000 : index
        %above = arith.cmpi sge, %j, %first : index
        %below = arith.cmpi sle, %j, %last : index
        %old = arith.andi %above, %below : i1
        %near = arith.subi %i, %c500 : index
        %new = arith.cmpi sge, %j, %near : index
        %keep = arith.ori %old, %new : i1
        flash.yield %keep : i1
      } -> !t, tensor<1x2x?xf32>
  return %o : !t
}

// The same keys for all rows.
//--- padding.mlir
!t = tensor<1x2x?x64xbf16>
func.func @padding(%q: !t, %k: !t, %v: !t, %n: index) -> !t {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %keep = arith.cmpi slt, %j, %n : index
        flash.yield %keep : i1
      } -> !t, tensor<1x2x?xf32>
  return %o : !t
}

// A bound that is read: a kernel that is not persistent has no list.
//--- lengths.mlir
!t = tensor<1x2x?x64xbf16>
func.func @lengths(%q: !t, %k: !t, %v: !t, %lengths: tensor<1xi32>) -> !t {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %length = tensor.extract %lengths[%b] : tensor<1xi32>
        %n = arith.index_cast %length : i32 to index
        %past = arith.cmpi sle, %j, %i : index
        %exists = arith.cmpi slt, %j, %n : index
        %keep = arith.andi %past, %exists : i1
        flash.yield %keep : i1
      } -> !t, tensor<1x2x?xf32>
  return %o : !t
}

// The same keys for all rows, as an array says.
//--- read-padding.mlir
!t = tensor<1x2x?x64xbf16>
func.func @read_padding(%q: !t, %k: !t, %v: !t, %lengths: tensor<1xi32>) -> !t {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %length = tensor.extract %lengths[%b] : tensor<1xi32>
        %n = arith.index_cast %length : i32 to index
        %keep = arith.cmpi slt, %j, %n : index
        flash.yield %keep : i1
      } -> !t, tensor<1x2x?xf32>
  return %o : !t
}

// Bounds that read an array, and a prefix that all rows see.
//--- shared-prefix.mlir
!t = tensor<1x2x?x64xbf16>
func.func @shared_prefix(%q: !t, %k: !t, %v: !t, %ids: tensor<?xi32>) -> !t {
  %c40 = arith.constant 40 : index
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %sorted = flash.assume_sorted %ids : tensor<?xi32>
        %x = tensor.extract %sorted[%i] : tensor<?xi32>
        %y = tensor.extract %sorted[%j] : tensor<?xi32>
        %same = arith.cmpi eq, %x, %y : i32
        %prefix = arith.cmpi slt, %j, %c40 : index
        %keep = arith.ori %same, %prefix : i1
        flash.yield %keep : i1
      } -> !t, tensor<1x2x?xf32>
  return %o : !t
}

// Runs of keys from a table.
//--- unsorted.mlir
!t = tensor<1x2x?x64xbf16>
func.func @unsorted(%q: !t, %k: !t, %v: !t, %ids: tensor<?xi32>) -> !t {
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %x = tensor.extract %ids[%i] : tensor<?xi32>
        %y = tensor.extract %ids[%j] : tensor<?xi32>
        %keep = arith.cmpi eq, %x, %y : i32
        flash.yield %keep : i1
      } -> !t, tensor<1x2x?xf32>
  return %o : !t
}
