// L1 that the passes of fa2 do not make: the parallel loop.
// RUN: flashc-opt %s --split-input-file --verify-diagnostics --convert-flash-to-tile="schedule=consumers=2,kv-tile=64"

!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
!all = tensor<1x4x256x64xbf16>
func.func @heads_from_one(%q: !all, %k: !k, %v: !k, %eacc: !acc, %em: !m, %out: !all) -> !all {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %acc = linalg.fill ins(%zero : f32) outs(%eacc : !acc) -> !acc
  %m = linalg.fill ins(%inf : f32) outs(%em : !m) -> !m
  %l = linalg.fill ins(%zero : f32) outs(%em : !m) -> !m
  // expected-error @below {{expected a parallel loop from 0 in constant steps}}
  %r = scf.forall (%h, %i) = (1, 0) to (4, 256) step (1, 128) shared_outs(%all = %out) -> (!all) {
    %qt = tensor.extract_slice %q[0, %h, %i, 0] [1, 1, 128, 64] [1, 1, 1, 1] : !all to !q
    %s:3 = flash.online_attention ins(%qt, %k, %v : !q, !k, !k) outs(%acc, %m, %l : !acc, !m, !m)
        at(%c0, %h, %i, %c0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !m, !m
    %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%qt, %em : !q, !m)
        {normalize = #flash.normalize<deferred>} -> !q, !m
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %o into %all[0, %h, %i, 0] [1, 1, 128, 64] [1, 1, 1, 1] : !q into !all
    }
  }
  return %r : !all
}

// -----

!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
!all = tensor<1x4x256x64xbf16>
func.func @two_heads_a_step(%q: !all, %k: !k, %v: !k, %eacc: !acc, %em: !m, %out: !all) -> !all {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %acc = linalg.fill ins(%zero : f32) outs(%eacc : !acc) -> !acc
  %m = linalg.fill ins(%inf : f32) outs(%em : !m) -> !m
  %l = linalg.fill ins(%zero : f32) outs(%em : !m) -> !m
  %r = scf.forall (%h, %i) = (0, 0) to (4, 256) step (2, 128) shared_outs(%all = %out) -> (!all) {
    %qt = tensor.extract_slice %q[0, %h, %i, 0] [1, 1, 128, 64] [1, 1, 1, 1] : !all to !q
    // expected-error @below {{expected one batch and one head per tile}}
    %s:3 = flash.online_attention ins(%qt, %k, %v : !q, !k, !k) outs(%acc, %m, %l : !acc, !m, !m)
        at(%c0, %h, %i, %c0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !m, !m
    %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%qt, %em : !q, !m)
        {normalize = #flash.normalize<deferred>} -> !q, !m
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %o into %all[0, %h, %i, 0] [1, 1, 128, 64] [1, 1, 1, 1] : !q into !all
    }
  }
  return %r : !all
}

// -----

!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
!all = tensor<1x4x256x64xbf16>
func.func @half_a_tile_a_step(%q: !all, %k: !k, %v: !k, %eacc: !acc, %em: !m, %out: !all) -> !all {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %acc = linalg.fill ins(%zero : f32) outs(%eacc : !acc) -> !acc
  %m = linalg.fill ins(%inf : f32) outs(%em : !m) -> !m
  %l = linalg.fill ins(%zero : f32) outs(%em : !m) -> !m
  %r = scf.forall (%h, %i) = (0, 0) to (4, 256) step (1, 64) shared_outs(%all = %out) -> (!all) {
    %qt = tensor.extract_slice %q[0, %h, %i, 0] [1, 1, 128, 64] [1, 1, 1, 1] : !all to !q
    // expected-error @below {{expected the parallel loop to step by one query tile (128), got 64}}
    %s:3 = flash.online_attention ins(%qt, %k, %v : !q, !k, !k) outs(%acc, %m, %l : !acc, !m, !m)
        at(%c0, %h, %i, %c0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !m, !m
    %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%qt, %em : !q, !m)
        {normalize = #flash.normalize<deferred>} -> !q, !m
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %o into %all[0, %h, %i, 0] [1, 1, 128, 64] [1, 1, 1, 1] : !q into !all
    }
  }
  return %r : !all
}

// -----

!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
!all = tensor<1x4x256x64xbf16>
func.func @extent_unknown(%q: !all, %k: !k, %v: !k, %eacc: !acc, %em: !m, %n: index, %out: !all) -> !all {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %acc = linalg.fill ins(%zero : f32) outs(%eacc : !acc) -> !acc
  %m = linalg.fill ins(%inf : f32) outs(%em : !m) -> !m
  %l = linalg.fill ins(%zero : f32) outs(%em : !m) -> !m
  %r = scf.forall (%h, %i) = (0, 0) to (4, %n) step (1, 128) shared_outs(%all = %out) -> (!all) {
    %qt = tensor.extract_slice %q[0, %h, %i, 0] [1, 1, 128, 64] [1, 1, 1, 1] : !all to !q
    %s:3 = flash.online_attention ins(%qt, %k, %v : !q, !k, !k) outs(%acc, %m, %l : !acc, !m, !m)
        at(%c0, %h, %i, %c0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !m, !m
    // expected-error @below {{expected the extents of the parallel loop to be constants or extents of arguments}}
    %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%qt, %em : !q, !m)
        {normalize = #flash.normalize<deferred>} -> !q, !m
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %o into %all[0, %h, %i, 0] [1, 1, 128, 64] [1, 1, 1, 1] : !q into !all
    }
  }
  return %r : !all
}

// -----

!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
!all = tensor<1x4x256x64xbf16>
func.func @finalize_in_a_nested_loop(%q: !all, %k: !k, %v: !k, %eacc: !acc, %em: !m, %out: !all) -> !all {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %acc = linalg.fill ins(%zero : f32) outs(%eacc : !acc) -> !acc
  %m = linalg.fill ins(%inf : f32) outs(%em : !m) -> !m
  %l = linalg.fill ins(%zero : f32) outs(%em : !m) -> !m
  %r = scf.forall (%h, %i) = (0, 0) to (4, 256) step (1, 128) shared_outs(%all = %out) -> (!all) {
    %qt = tensor.extract_slice %q[0, %h, %i, 0] [1, 1, 128, 64] [1, 1, 1, 1] : !all to !q
    %s:3 = flash.online_attention ins(%qt, %k, %v : !q, !k, !k) outs(%acc, %m, %l : !acc, !m, !m)
        at(%c0, %h, %i, %c0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !m, !m
    %f = scf.execute_region -> !q {
      // expected-error @below {{expected flash.finalize directly in the parallel loop}}
      %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%qt, %em : !q, !m)
          {normalize = #flash.normalize<deferred>} -> !q, !m
      scf.yield %o : !q
    }
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %f into %all[0, %h, %i, 0] [1, 1, 128, 64] [1, 1, 1, 1] : !q into !all
    }
  }
  return %r : !all
}

// -----

!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
!all = tensor<1x4x256x64xbf16>
func.func @side_effect(%q: !all, %k: !k, %v: !k, %eacc: !acc, %em: !m, %flag: memref<f32>, %out: !all) -> !all {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %acc = linalg.fill ins(%zero : f32) outs(%eacc : !acc) -> !acc
  %m = linalg.fill ins(%inf : f32) outs(%em : !m) -> !m
  %l = linalg.fill ins(%zero : f32) outs(%em : !m) -> !m
  %r = scf.forall (%h, %i) = (0, 0) to (4, 256) step (1, 128) shared_outs(%all = %out) -> (!all) {
    // expected-error @below {{expected a function that computes an attention only, got another side effect}}
    memref.store %zero, %flag[] : memref<f32>
    %qt = tensor.extract_slice %q[0, %h, %i, 0] [1, 1, 128, 64] [1, 1, 1, 1] : !all to !q
    %s:3 = flash.online_attention ins(%qt, %k, %v : !q, !k, !k) outs(%acc, %m, %l : !acc, !m, !m)
        at(%c0, %h, %i, %c0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !m, !m
    %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%qt, %em : !q, !m)
        {normalize = #flash.normalize<deferred>} -> !q, !m
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %o into %all[0, %h, %i, 0] [1, 1, 128, 64] [1, 1, 1, 1] : !q into !all
    }
  }
  return %r : !all
}

// -----

!q = tensor<1x1x128x64xbf16>
!k = tensor<1x1x64x64xbf16>
!acc = tensor<1x1x128x64xf32>
!m = tensor<1x1x128xf32>
!all = tensor<1x1x?x64xbf16>
func.func @other_tiles_of_segments(%q: !all, %k: !k, %v: !k, %eacc: !acc, %em: !m, %n: index, %out: !all, %offsets: tensor<4xi32>) -> !all {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0.0 : f32
  %inf = arith.constant 0xFF800000 : f32
  %acc = linalg.fill ins(%zero : f32) outs(%eacc : !acc) -> !acc
  %m = linalg.fill ins(%inf : f32) outs(%em : !m) -> !m
  %l = linalg.fill ins(%zero : f32) outs(%em : !m) -> !m
  %sorted = flash.assume_sorted %offsets : tensor<4xi32>
  %r = scf.forall (%t) in (%n) shared_outs(%all = %out) -> (!all) {
    // expected-error @below {{expected tiles of 128 queries, got 64}}
    %i, %rows, %segment = flash.segment_tile %t of %sorted length %n tiles 64 : tensor<4xi32>
    %qt = tensor.extract_slice %q[0, 0, %i, 0] [1, 1, 128, 64] [1, 1, 1, 1] : !all to !q
    %s:3 = flash.online_attention ins(%qt, %k, %v : !q, !k, !k) outs(%acc, %m, %l : !acc, !m, !m)
        at(%c0, %c0, %i, %c0) {normalize = #flash.normalize<deferred>, scale = 1.0 : f32} -> !acc, !m, !m
    %o, %lse = flash.finalize ins(%s#0, %s#1, %s#2 : !acc, !m, !m) outs(%qt, %em : !q, !m)
        {normalize = #flash.normalize<deferred>} -> !q, !m
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %o into %all[0, 0, %i, 0] [1, 1, 128, 64] [1, 1, 1, 1] : !q into !all
    }
  }
  return %r : !all
}
