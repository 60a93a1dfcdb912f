// RUN: %vary %s | flashc-opt --split-input-file --flash-bound-loops --canonicalize --cse | FileCheck %s

// That the bounds are sound and tight is checked by brute force in test/Analysis/bound-loops-property.test.

// CHECK-DAG: #[[END_MAP:.*]] = affine_map<()[s0] -> (256, ((s0 + 64) ceildiv 32) * 32)>
// CHECK-DAG: #[[FULL_MAP:.*]] = affine_map<()[s0, s1] -> (s0, 256, ((s1 + 1) floordiv 32) * 32)>
// CHECK-DAG: #[[ORDER:.*]] = affine_map<()[s0] -> (0, s0)>

!q = tensor<1x1x64x8xf32>
!row = tensor<1x1x64xf32>
!tile = tensor<1x1x32x8xf32>
func.func @NAME(%q: !q, %k: tensor<1x1x256x8xf32>, %m: !row, %b0: index, %i0: index) -> (!q, !row, !row) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c256 = arith.constant 256 : index
  %r:3 = scf.for %pos = %c0 to %c256 step %c32 iter_args(%s0 = %q, %s1 = %m, %s2 = %m) -> (!q, !row, !row) {
    %t = tensor.extract_slice %k[0, 0, %pos, 0] [1, 1, 32, 8] [1, 1, 1, 1] : tensor<1x1x256x8xf32> to !tile
    %s:3 = flash.online_attention ins(%q, %t, %t : !q, !tile, !tile) outs(%s0, %s1, %s2 : !q, !row, !row)
        at(%b0, %c0, %i0, %pos) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32}
        mask (%b: index, %h: index, %i: index, %j: index) {
          %p = arith.cmpi sle, %j, %i : index // BODY
          flash.yield %p : i1
        } -> !q, !row, !row
    scf.yield %s#0, %s#1, %s#2 : !q, !row, !row
  }
  return %r#0, %r#1, %r#2 : !q, !row, !row
}

// Causal: whole tiles up to the diagonal, then the tiles on it. The state goes through both loops.
// CHECK-LABEL: func @causal
// CHECK-SAME:    %[[Q:[a-z0-9]+]]: tensor<1x1x64x8xf32>, {{.*}}, %[[M:[a-z0-9]+]]: tensor<1x1x64xf32>, %{{.*}}: index, %[[I:[a-z0-9]+]]: index)
// CHECK:         %[[END:.*]] = affine.min #[[END_MAP]]()[%[[I]]]
// CHECK:         %[[CLAMPED_END:.*]] = affine.max #[[ORDER]]()[%[[END]]]
// CHECK:         %[[FULL:.*]] = affine.min #[[FULL_MAP]]()[%[[CLAMPED_END]], %[[I]]]
// CHECK:         %[[CLAMPED_FULL:.*]] = affine.max #[[ORDER]]()[%[[FULL]]]
// CHECK:         %[[A:.*]]:3 = scf.for %{{[a-z0-9]+}} = %c0 to %[[CLAMPED_FULL]] step %c32 iter_args(%{{.*}} = %[[Q]], %{{.*}} = %[[M]], %{{.*}} = %[[M]])
// CHECK:           flash.online_attention
// CHECK-NOT:       mask
// CHECK:         %[[B:.*]]:3 = scf.for %{{[a-z0-9]+}} = %[[CLAMPED_FULL]] to %[[CLAMPED_END]] step %c32 iter_args(%{{.*}} = %[[A]]#0, %{{.*}} = %[[A]]#1, %{{.*}} = %[[A]]#2)
// CHECK:           flash.online_attention {{.*}} mask
// CHECK-NOT:     scf.for
// CHECK:         return %[[B]]#0, %[[B]]#1, %[[B]]#2
// VARY causal

// A window of keys around the diagonal: masked, whole, masked.
// CHECK-LABEL: func @window
// CHECK:         scf.for %{{[a-z0-9]+}} = %[[BEGIN:.*]] to %[[FULL_BEGIN:.*]] step %c32
// CHECK:           flash.online_attention {{.*}} mask
// CHECK:         scf.for %{{[a-z0-9]+}} = %[[FULL_BEGIN]] to %[[FULL_END:.*]] step %c32
// CHECK:           flash.online_attention
// CHECK-NOT:       mask
// CHECK:         scf.for %{{[a-z0-9]+}} = %[[FULL_END]] to %{{.*}} step %c32
// CHECK:           flash.online_attention {{.*}} mask
// CHECK-NOT:     scf.for
// VARY window
//     %c100 = arith.constant 100 : index
//     %distance = arith.subi %i, %j : index
//     %near = arith.cmpi slt, %distance, %c100 : index
//     %causal = arith.cmpi sle, %j, %i : index
//     %p = arith.andi %near, %causal : i1

// A length per batch, read in the region: the read moves in front of the loops, for this tile's batch.
// CHECK-LABEL: func @lengths
// CHECK-SAME:    %[[B:[a-z0-9]+]]: index, %{{[a-z0-9]+}}: index, %[[LENGTHS:[a-z0-9]+]]: tensor<?xi32>
// CHECK:         %[[LENGTH:.*]] = tensor.extract %[[LENGTHS]][%[[B]]]
// CHECK:         %[[N:.*]] = arith.index_cast %[[LENGTH]] : i32 to index
// CHECK:         affine.min #{{.*}}()[%[[N]]]
// CHECK:         scf.for %{{[a-z0-9]+}} = %c0 to %[[FULL:.*]] step
// CHECK:         scf.for %{{[a-z0-9]+}} = %[[FULL]] to %{{.*}} step
// CHECK-NOT:     scf.for
// VARY lengths
//     %length = tensor.extract %lengths[%b] : tensor<?xi32>
//     %j32 = arith.index_cast %j : index to i32
//     %p = arith.cmpi slt, %j32, %length : i32
//   %i0: index) => %i0: index, %lengths: tensor<?xi32>)

// A condition on the query alone: no tile is needed if no query satisfies it, none is whole unless all do.
// CHECK-LABEL: func @query_limit
// CHECK:         %[[SOME:.*]] = arith.cmpi sge
// CHECK:         %[[END:.*]] = arith.select %[[SOME]], %c256, %c0
// CHECK:         %[[ALL:.*]] = arith.cmpi sge
// CHECK:         %[[FULL:.*]] = arith.select %[[ALL]], %{{.*}}, %c0
// CHECK:         scf.for %{{[a-z0-9]+}} = %c0 to %[[FULL]] step
// CHECK:         scf.for %{{[a-z0-9]+}} = %[[FULL]] to %[[END]] step
// VARY query_limit
//     %p = arith.cmpi slt, %i, %n : index
//   %i0: index) => %i0: index, %n: index)

// Tiles are counted from where the loop begins.
// CHECK-LABEL: func @offset_begin
// CHECK:         scf.for %{{[a-z0-9]+}} = %c64 to %c128 step
// CHECK:         flash.online_attention
// CHECK-NOT:     mask
// CHECK:         flash.online_attention {{.*}} mask
// CHECK-NOT:     flash.online_attention
// VARY offset_begin
//     %c130 = arith.constant 130 : index
//     %p = arith.cmpi slt, %j, %c130 : index
//   %c0 to => %c64 to

// A mask that keeps everything goes away; the loop stays whole.
// CHECK-LABEL: func @always
// CHECK:         scf.for %{{[a-z0-9]+}} = %c0 to %c256 step
// CHECK:         flash.online_attention
// CHECK-NOT:     mask
// CHECK-NOT:     scf.for
// VARY always
//     %p = arith.cmpi slt, %j, %c256 : index

// A mask that keeps nothing: the loop that is left has no iterations, since no position is negative.
// CHECK-LABEL: func @never
// CHECK-SAME:    index, %[[I:.*]]: index)
// CHECK:         %[[END:.*]] = arith.minsi %[[I]], %c0
// CHECK:         scf.for %{{.*}} = %c0 to %[[END]] step %c32
// CHECK-NOT:     scf.for
// CHECK:         return
// VARY never
//     %p = arith.constant false

// A flag per head: without it every key is kept. It is 0 or 1 in front of the loops.
// CHECK-LABEL: func @flag
// CHECK:         %[[FLAG:.*]] = tensor.extract
// CHECK:         %[[N:.*]] = arith.index_castui %[[FLAG]] : i1 to index
// CHECK:         scf.for
// CHECK:           flash.online_attention
// CHECK-NOT:       mask
// CHECK:         scf.for
// CHECK:           flash.online_attention {{.*}} mask
// VARY flag
//     %causal = arith.cmpi sle, %j, %i : index
//     %true = arith.constant true
//     %flag = tensor.extract %flags[%h] : tensor<?xi1>
//     %p = arith.select %flag, %causal, %true : i1
//   %i0: index) => %i0: index, %flags: tensor<?xi1>)

// -----

!q = tensor<1x1x64x8xf32>
!row = tensor<1x1x64xf32>
!tile = tensor<1x1x32x8xf32>

// Only the last tile of 100 keys needs the mask. The slices of the others are no longer clamped.
// CHECK-LABEL: func @tail
// CHECK:         scf.for %{{[a-z0-9]+}} = %c0 to %c96 step %c32
// CHECK-NEXT:      %[[T:.*]] = tensor.extract_slice %{{.*}} [1, 1, 32, 8]
// CHECK-NEXT:      flash.online_attention ins(%{{.*}}, %[[T]], %[[T]] :
// CHECK-NOT:       mask
// CHECK:         tensor.extract_slice %{{.*}} [1, 1, 4, 8]
// CHECK:         tensor.pad
// CHECK:         flash.online_attention {{.*}} mask
func.func @tail(%q: !q, %k: tensor<1x1x100x8xf32>, %m: !row, %b0: index, %i0: index) -> (!q, !row, !row) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c256 = arith.constant 256 : index
  %c100 = arith.constant 100 : index
  %zero = arith.constant 0.0 : f32
  %r:3 = scf.for %pos = %c0 to %c100 step %c32 iter_args(%s0 = %q, %s1 = %m, %s2 = %m) -> (!q, !row, !row) {
    %size = affine.min affine_map<(d0) -> (32, -d0 + 100)>(%pos)
    %clamped = tensor.extract_slice %k[0, 0, %pos, 0] [1, 1, %size, 8] [1, 1, 1, 1]
        : tensor<1x1x100x8xf32> to tensor<1x1x?x8xf32>
    %high = affine.apply affine_map<(d0) -> (-d0 + 32)>(%size)
    %t = tensor.pad %clamped low[0, 0, 0, 0] high[0, 0, %high, 0] {
    ^bb0(%x0: index, %x1: index, %x2: index, %x3: index):
      tensor.yield %zero : f32
    } : tensor<1x1x?x8xf32> to !tile
    %s:3 = flash.online_attention ins(%q, %t, %t : !q, !tile, !tile) outs(%s0, %s1, %s2 : !q, !row, !row)
        at(%b0, %c0, %i0, %pos) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32}
        mask (%b: index, %h: index, %i: index, %j: index) {
          %p = arith.cmpi slt, %j, %c100 : index
          flash.yield %p : i1
        } -> !q, !row, !row
    scf.yield %s#0, %s#1, %s#2 : !q, !row, !row
  }
  return %r#0, %r#1, %r#2 : !q, !row, !row
}

// Sink tokens and a window: the tile of the sink first, and the window's tiles, of which those inside it are whole. What
// one is in, the other one does not visit again.
// CHECK-LABEL: func @sink_window
// CHECK:         scf.for %{{[a-z0-9]+}} = %c0 to %[[SINK_END:.*]] step
// CHECK:           flash.online_attention {{.*}} mask
// CHECK:         scf.for %{{[a-z0-9]+}} = %[[BEGIN:.*]] to %[[FULL:.*]] step
// CHECK:           flash.online_attention {{.*}} mask
// CHECK:         scf.for %{{[a-z0-9]+}} = %[[FULL]] to %[[FULL_END:.*]] step
// CHECK:           flash.online_attention
// CHECK-NOT:       mask
// CHECK:         scf.for %{{[a-z0-9]+}} = %[[FULL_END]] to %{{.*}} step
// CHECK:           flash.online_attention {{.*}} mask
// CHECK-NOT:     scf.for
func.func @sink_window(%q: !q, %k: tensor<1x1x256x8xf32>, %m: !row, %b0: index) -> (!q, !row, !row) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c256 = arith.constant 256 : index
  %all:3 = scf.for %i0 = %c0 to %c256 step %c64 iter_args(%a0 = %q, %a1 = %m, %a2 = %m) -> (!q, !row, !row) {
    %r:3 = scf.for %pos = %c0 to %c256 step %c32 iter_args(%s0 = %a0, %s1 = %a1, %s2 = %a2) -> (!q, !row, !row) {
      %t = tensor.extract_slice %k[0, 0, %pos, 0] [1, 1, 32, 8] [1, 1, 1, 1] : tensor<1x1x256x8xf32> to !tile
      %s:3 = flash.online_attention ins(%q, %t, %t : !q, !tile, !tile) outs(%s0, %s1, %s2 : !q, !row, !row)
          at(%b0, %c0, %i0, %pos) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32}
          mask (%b: index, %h: index, %i: index, %j: index) {
            %c4 = arith.constant 4 : index
            %c100 = arith.constant 100 : index
            %distance = arith.subi %i, %j : index
            %near = arith.cmpi slt, %distance, %c100 : index
            %sink = arith.cmpi slt, %j, %c4 : index
            %either = arith.ori %near, %sink : i1
            %causal = arith.cmpi sle, %j, %i : index
            %p = arith.andi %causal, %either : i1
            flash.yield %p : i1
          } -> !q, !row, !row
      scf.yield %s#0, %s#1, %s#2 : !q, !row, !row
    }
    scf.yield %r#0, %r#1, %r#2 : !q, !row, !row
  }
  return %all#0, %all#1, %all#2 : !q, !row, !row
}

// Every query sees itself: no row is without a key, and flash.finalize is told so, whatever the scores are.
// CHECK-LABEL: func @no_empty_rows
// CHECK:         flash.finalize {{.*}}no_empty_rows
// CHECK:         flash.finalize {{.*}}no_empty_rows
// CHECK:         return
func.func @no_empty_rows(%q: !q, %k: !tile, %m: !row, %bias: f32) -> (!q, !row, !q, !row) {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %c256 = arith.constant 256 : index
  %all:4 = scf.for %i0 = %c0 to %c256 step %c64 iter_args(%a = %q, %b = %m, %c = %q, %d = %m) -> (!q, !row, !q, !row) {
    %r:3 = scf.for %pos = %c0 to %c256 step %c32 iter_args(%s0 = %q, %s1 = %m, %s2 = %m) -> (!q, !row, !row) {
      %s:3 = flash.online_attention ins(%q, %k, %k : !q, !tile, !tile) outs(%s0, %s1, %s2 : !q, !row, !row)
          at(%c0, %c0, %i0, %pos) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32}
          mask (%bb: index, %h: index, %i: index, %j: index) {
            %p = arith.cmpi sle, %j, %i : index
            flash.yield %p : i1
          } -> !q, !row, !row
      scf.yield %s#0, %s#1, %s#2 : !q, !row, !row
    }
    %o:2 = flash.finalize ins(%r#0, %r#1, %r#2 : !q, !row, !row) outs(%q, %m : !q, !row)
        {normalize = #flash.normalize<deferred>} -> !q, !row
    %t:3 = scf.for %pos = %c0 to %c256 step %c32 iter_args(%s0 = %q, %s1 = %m, %s2 = %m) -> (!q, !row, !row) {
      %s:3 = flash.online_attention ins(%q, %k, %k : !q, !tile, !tile) outs(%s0, %s1, %s2 : !q, !row, !row)
          at(%c0, %c0, %i0, %pos) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32}
          score (%x: f32, %bb: index, %h: index, %i: index, %j: index) {
            %y = arith.addf %x, %bias : f32
            flash.yield %y : f32
          } -> !q, !row, !row
      scf.yield %s#0, %s#1, %s#2 : !q, !row, !row
    }
    %u:2 = flash.finalize ins(%t#0, %t#1, %t#2 : !q, !row, !row) outs(%q, %m : !q, !row)
        {normalize = #flash.normalize<deferred>} -> !q, !row
    scf.yield %o#0, %o#1, %u#0, %u#1 : !q, !row, !q, !row
  }
  return %all#0, %all#1, %all#2, %all#3 : !q, !row, !q, !row
}
