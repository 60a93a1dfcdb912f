// With own-keys and several runs of keys, of which the last one moves with the rows: what each consumer visits and masks,
// run for many numbers of queries and keys, against the mask of every element.
// DEFINE: %{l1} = --flash-online-softmax --flash-tile="q-tile=192 kv-tile=128" --canonicalize --cse --flash-swap-loops --flash-bound-loops --flash-parallelize --canonicalize --cse
// DEFINE: %{small} = --flash-online-softmax --flash-tile="q-tile=128 kv-tile=32" --canonicalize --cse --flash-swap-loops --flash-bound-loops --flash-parallelize --canonicalize --cse
// DEFINE: %{odd} = --flash-online-softmax --flash-tile="q-tile=192 kv-tile=80" --canonicalize --cse --flash-swap-loops --flash-bound-loops --flash-parallelize --canonicalize --cse
// DEFINE: %{tile} = --convert-flash-to-tile=schedule=consumers=3,kv-tile=128,stages=4,persistent=false,own-keys=true --canonicalize --cse
// RUN: %vary %s | flashc-opt --split-input-file %{l1} %{tile} > %t
// RUN: FileCheck %s < %t
// RUN: %python %S/Inputs/run_own_visits.py < %t | FileCheck %s --check-prefix=VISITS
// RUN: %vary %s | flashc-opt --split-input-file %{small} --convert-flash-to-tile=schedule=consumers=2,kv-tile=32,stages=4,persistent=false,own-keys=true --canonicalize --cse > %t
// RUN: %python %S/Inputs/run_own_visits.py < %t | FileCheck %s --check-prefix=SMALL
// RUN: %vary %s | flashc-opt --split-input-file %{odd} --convert-flash-to-tile=schedule=consumers=3,kv-tile=80,stages=4,persistent=false,own-keys=true --canonicalize --cse > %t
// RUN: %python %S/Inputs/run_own_visits.py < %t | FileCheck %s --check-prefix=ODD

// What @sinks visits it needs, and what it masks is cut, but where rows of short sequences see no key of the window
// (SMALL). Tiles of a prefix that the window's run holds are masked, and so are all tiles in front of the prefix's.
// VISITS:      @sinks visits 498 kept 498 masked 166 cut 166 all 552
// VISITS-NEXT: @narrow visits 193 kept 193 masked 193 cut 193 all 259
// VISITS-NEXT: @prefix visits 584 kept 560 masked 294 cut 150 all 608
// VISITS-NEXT: @two_fixed visits 605 kept 604 masked 446 cut 391 all 640
// VISITS-NEXT: @falling visits 429 kept 429 masked 335 cut 209 all 464
// SMALL:       @sinks visits 1743 kept 1741 masked 276 cut 274 all 1845
// SMALL-NEXT:  @narrow visits 490 kept 485 masked 421 cut 300 all 617
// SMALL-NEXT:  @prefix visits 2095 kept 2057
// ODD:         @sinks visits 761 kept 761 masked 228 cut 228 all 842

// A window and sink tokens. The tile of the sinks stands among the visits of the window: the chain of keys has three
// pieces, and which of them are masked has no part in it.
// CHECK-LABEL: gpu.func @sinks(
// CHECK:         %[[TOTAL:.*]] = tile.uniform
// CHECK-COUNT-2: tile.uniform
// CHECK:         %[[FIRST:.*]] = tile.uniform
// CHECK:         %[[LAST:.*]] = tile.uniform
// CHECK:         %[[BEGIN:.*]], %[[END:.*]] = tile.own_visits %[[FIRST]] to %[[LAST]] of %[[TOTAL]]
// CHECK:         tile.advance_ring %[[BEGIN]] of
// CHECK:         scf.for %[[U:.*]] = %[[BEGIN]] to %[[END]] step
// CHECK:           arith.cmpi sge, %[[U]], %[[PLACE:.*]] : index
// CHECK-NEXT:      arith.select
// CHECK-NEXT:      arith.cmpi sge, %[[U]], %[[BEHIND:.*]] : index
// CHECK-NEXT:      %[[PIECE:.*]] = arith.select
// CHECK-NEXT:      %[[KEY:.*]] = arith.subi %[[PIECE]], %{{.*}} : index
// CHECK-NEXT:      tile.load %{{.*}}[%{{.*}}, %{{.*}}, %[[KEY]]]
// CHECK:           tile.outside %[[U]] of[
// CHECK:         %[[REST:.*]] = arith.subi %[[TOTAL]], %[[END]]
// CHECK:         tile.advance_ring %[[REST]] of
!t = tensor<1x2x?x64xbf16>
!lse = tensor<1x2x?xf32>
func.func @sinks(%q: !t, %k: !t, %v: !t) -> !t {
  %count = arith.constant 4 : index
  %width = arith.constant 1023 : index
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %first = arith.subi %i, %width : index
        %near = arith.cmpi sge, %j, %first : index
        %sink = arith.cmpi slt, %j, %count : index
        %seen = arith.ori %near, %sink : i1
        %past = arith.cmpi sle, %j, %i : index
        %keep = arith.andi %past, %seen : i1
        flash.yield %keep : i1
      } -> !t, !lse
  return %o : !t
}

// VARY narrow: The window is narrower than the rows of a CTA: some consumers begin when others have ended.
//   @sinks => @narrow
//   constant 4 => constant 70
//   constant 1023 => constant 10
// VARY prefix: A prefix with full tiles, of which nobody masks any.
//   @sinks => @prefix
//   constant 4 => constant 700
//   constant 1023 => constant 500

// -----

// Two intervals at fixed keys, and a window on both sides.
!t = tensor<1x2x?x64xbf16>
!lse = tensor<1x2x?xf32>
func.func @two_fixed(%q: !t, %k: !t, %v: !t) -> !t {
  %c4 = arith.constant 4 : index
  %c130 = arith.constant 130 : index
  %c400 = arith.constant 400 : index
  %c100 = arith.constant 100 : index
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %first = arith.subi %i, %c100 : index
        %last = arith.addi %i, %c400 : index
        %above = arith.cmpi sge, %j, %first : index
        %below = arith.cmpi sle, %j, %last : index
        %near = arith.andi %above, %below : i1
        %sink = arith.cmpi slt, %j, %c4 : index
        %from = arith.cmpi sge, %j, %c130 : index
        %to = arith.cmpi slt, %j, %c400 : index
        %second = arith.andi %from, %to : i1
        %fixed = arith.ori %sink, %second : i1
        %keep = arith.ori %fixed, %near : i1
        flash.yield %keep : i1
      } -> !t, !lse
  return %o : !t
}

// -----

// Rows see earlier keys than those before them: right, if not as few visits as there could be.
!t = tensor<1x2x?x64xbf16>
!lse = tensor<1x2x?xf32>
func.func @falling(%q: !t, %k: !t, %v: !t) -> !t {
  %c300 = arith.constant 300 : index
  %c1500 = arith.constant 1500 : index
  %o, %lse = flash.attention ins(%q, %k, %v : !t, !t, !t) {scale = 0.125 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %last = arith.subi %c1500, %i : index
        %first = arith.subi %last, %c300 : index
        %above = arith.cmpi sge, %j, %first : index
        %below = arith.cmpi sle, %j, %last : index
        %near = arith.andi %above, %below : i1
        %sink = arith.cmpi slt, %j, %c300 : index
        %keep = arith.ori %sink, %near : i1
        flash.yield %keep : i1
      } -> !t, !lse
  return %o : !t
}
