// RUN: flashc-opt %s --tile-split-loops | FileCheck %s
// RUN: flashc-opt %s --tile-split-loops --remark-format=emitRemark --remarks-filter-missed=tile -o /dev/null 2>&1 \
// RUN:   | FileCheck %s --check-prefix=REMARK

gpu.module @kernels {
  // Both bounds are clamped; each part has one branch left.
  // CHECK-LABEL: gpu.func @three_parts(
  // CHECK-SAME:      %[[N:arg0]]: index, %[[LO:arg1]]: index, %[[HI:arg2]]: index, %[[X0:arg3]]: f32
  // CHECK:         %[[C1:.*]] = arith.constant 1 : index
  // CHECK:         %[[A:.*]] = arith.minsi %[[LO]], %[[N]]
  // CHECK-NEXT:    %[[LO1:.*]] = arith.maxsi %[[C1]], %[[A]]
  // CHECK-NEXT:    %[[B:.*]] = arith.minsi %[[HI]], %[[N]]
  // CHECK-NEXT:    %[[HI1:.*]] = arith.maxsi %[[LO1]], %[[B]]
  // CHECK-NEXT:    %[[R1:.*]] = scf.for %{{.*}} = %[[C1]] to %[[LO1]] step %[[C1]] iter_args(%[[X:.*]] = %[[X0]])
  // CHECK-NEXT:      %[[Y:.*]] = math.exp2 %[[X]]
  // CHECK-NEXT:      scf.yield %[[Y]]
  // CHECK-NEXT:    }
  // CHECK-NEXT:    %[[R2:.*]] = scf.for %{{.*}} = %[[LO1]] to %[[HI1]] step %[[C1]] iter_args(%[[X:.*]] = %[[R1]])
  // CHECK-NEXT:      scf.yield %[[X]]
  // CHECK-NEXT:    }
  // CHECK-NEXT:    %[[R3:.*]] = scf.for %{{.*}} = %[[HI1]] to %[[N]] step %[[C1]] iter_args(%[[X:.*]] = %[[R2]])
  // CHECK-NEXT:      %[[Y:.*]] = math.exp2 %[[X]]
  // CHECK-NEXT:      scf.yield %[[Y]]
  // CHECK-NEXT:    }
  // CHECK-NEXT:    math.absf %[[R3]]
  gpu.func @three_parts(%n: index, %lo: index, %hi: index, %x0: f32) kernel {
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %c1 = arith.constant 1 : index
      %r = scf.for %u = %c1 to %n step %c1 iter_args(%x = %x0) -> (f32) {
        %needs = tile.outside %u of [%lo, %hi)
        %y = scf.if %needs -> (f32) {
          %z = math.exp2 %x : f32
          scf.yield %z : f32
        } else {
          scf.yield %x : f32
        }
        scf.yield %y : f32
      }
      %used = math.absf %r : f32
    }
    gpu.return
  }

  // Backwards from the diagonal: the tiles from `lo` on need no mask. The first tile is peeled, so [1, 2) is left.
  // CHECK-LABEL: gpu.func @two_parts(
  // CHECK-SAME:      %[[N:arg0]]: index
  // CHECK:         %[[A:.*]] = arith.minsi %c2, %[[N]]
  // CHECK-NEXT:    %[[LO:.*]] = arith.maxsi %c1, %[[A]]
  // CHECK-NEXT:    scf.for %[[U:.*]] = %c1 to %[[LO]] step %c1 {
  // CHECK-NEXT:      tile.ping_pong_wait %[[U]]
  // CHECK-NEXT:    }
  // CHECK-NEXT:    scf.for %{{.*}} = %[[LO]] to %[[N]] step %c1 {
  // CHECK-NEXT:    }
  // CHECK-NOT:     scf.for
  gpu.func @two_parts(%n: index) kernel {
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      scf.for %u = %c1 to %n step %c1 {
        %needs = tile.outside %u of [%c2, %n)
        scf.if %needs {
          tile.ping_pong_wait %u
        }
      }
    }
    gpu.return
  }

  // The tiles of a sequence, at least one; the first is peeled, so the loop does not go beyond those that exist.
  // CHECK-LABEL: gpu.func @at_least_one(
  // CHECK-SAME:      %[[N:arg0]]: index, %[[LO:arg1]]: index
  // CHECK:         %[[A:.*]] = arith.minsi %[[LO]], %[[N]]
  // CHECK-NEXT:    %[[LO1:.*]] = arith.maxsi %c1, %[[A]]
  // CHECK-NEXT:    scf.for %{{.*}} = %c1 to %[[LO1]] step %c1 {
  // CHECK:         scf.for %{{.*}} = %[[LO1]] to %[[N]] step %c1 {
  // CHECK-NOT:     scf.for
  gpu.func @at_least_one(%n: index, %lo: index) kernel {
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %c1 = arith.constant 1 : index
      %total = arith.maxsi %n, %c1 : index
      scf.for %u = %c1 to %total step %c1 {
        %needs = tile.outside %u of [%lo, %n)
        scf.if %needs {
          tile.ping_pong_wait %u
        }
      }
    }
    gpu.return
  }

  // No tile needs the mask: one loop, without a clamp.
  // CHECK-LABEL: gpu.func @one_part(
  // CHECK-NOT:     arith.minsi
  // CHECK:         scf.for %{{.*}} = %c1 to %arg0 step %c1 {
  // CHECK-NEXT:      %[[FALSE:.*]] = arith.constant false
  // CHECK-NEXT:      arith.xori %[[FALSE]], %[[FALSE]]
  // CHECK-NEXT:    }
  // CHECK-NEXT:  }
  gpu.func @one_part(%n: index) kernel {
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      scf.for %u = %c1 to %n step %c1 {
        %needs = tile.outside %u of [%c0, %n)
        %other = arith.xori %needs, %needs : i1
      }
    }
    gpu.return
  }

  // Two intervals, in an inner loop: one splits it into 2 parts, the other the first of them into 2, the second into 3.
  // CHECK-LABEL: gpu.func @two_intervals(
  // CHECK-NOT:     tile.outside
  // CHECK-COUNT-6: scf.for
  // CHECK-NOT:     scf.for
  // CHECK-LABEL: gpu.func @stays
  gpu.func @two_intervals(%n: index, %lo: index, %hi: index) kernel {
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      scf.for %t = %c0 to %n step %c1 {
        scf.for %u = %c0 to %n step %c1 {
          %first = tile.outside %u of [%lo, %n)
          scf.if %first {
            tile.ping_pong_wait %u
          }
          %second = tile.outside %u of [%c0, %hi)
          scf.if %second {
            tile.ping_pong_pass %u
          }
        }
      }
    }
    gpu.return
  }

  // CHECK-COUNT-2: scf.for
  // CHECK-NOT:     scf.for
  // REMARK:      [Missed] split-loops | Category:tile | {{.*}}Remark="the bounds change inside the loop"
  // REMARK:      [Missed] split-loops | Category:tile | {{.*}}Remark="the loop's step is not 1"
  gpu.func @stays(%n: index, %lo: index, %hi: index) kernel {
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      scf.for %u = %c0 to %n step %hi {
        %outside = tile.outside %u of [%lo, %hi)
      }
      scf.for %u = %c0 to %n step %c1 {
        %moving = arith.addi %u, %lo : index
        %outside = tile.outside %u of [%moving, %hi)
      }
    }
    gpu.return
  }
}
