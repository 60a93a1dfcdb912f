// Exponentials of which some are polynomials: of a thread's 16 elements of a 64x32 tile, every fourth with fma = 4.
// Without an offset exponents are small, and nothing is saturated.
// DEFINE: %{fma} =
// DEFINE: %{convert} = sed s/FMA/%{fma}/ %s | flashc-opt --convert-tile-to-nvvm | FileCheck %s
// REDEFINE: %{fma} = 4
// RUN: %{convert} --check-prefixes=FOUR
// REDEFINE: %{fma} = 5
// RUN: %{convert} --check-prefixes=FIVE
// REDEFINE: %{fma} = 16
// RUN: %{convert} --check-prefixes=ALL
// RUN: sed -e s/FMA/8/ -e 's/, %%offset {/ {/' -e 's/: !acc, !row$/: !acc/' %s \
// RUN:   | flashc-opt --convert-tile-to-nvvm | FileCheck %s --check-prefix=TINY

!acc = tensor<64x32xf32, #tile.acc>
!row = tensor<64xf32, #tile.row>
!o = memref<?x1x?x32xf32, strided<[?, ?, ?, 1]>>

gpu.module @kernels {
  gpu.func @exponentials(%o: !o, %n: index, %s: f32, %r: f32) kernel attributes {tile.schedule = #tile.schedule<consumers = 1, kv_tile = 16, stages = 1, producer_registers = 24, consumer_registers = 240, overlap = false, ping_pong = false>} {
    %c0 = arith.constant 0 : index
    tile.warp_specialize 1 registers(24, 240) producer {
    } consumer {
    ^bb0(%w: index):
      %zero = arith.constant dense<0.0> : !acc
      %scores = tile.map %zero at (%c0, %c0) {
      ^bb0(%e: f32, %i: index, %j: index):
        tile.yield %s : f32
      } : !acc
      %offset = tile.rows at(%c0) {
      ^bb0(%i: index):
        tile.yield %r : f32
      } : !row
      // Of a row, its offset as the distance from the least exponent, in units of 256.
      // FOUR-DAG: %[[UNIT:.*]] = arith.constant 3.906250e-03 : f32
      // FOUR-DAG: %[[LEAST:.*]] = arith.constant 0.49609375 : f32
      // FOUR-DAG: %[[FACTOR:.*]] = arith.constant 2.500000e-01 : f32
      // FOUR-DAG: %[[SMALL:.*]] = arith.constant 9.765625E-4 : f32
      // FOUR: %[[O0:.*]] = math.fma %[[R:.*]], %[[UNIT]], %[[LEAST]] : f32
      // FOUR: %[[O8:.*]] = math.fma %[[R]], %[[UNIT]], %[[LEAST]] : f32

      // Elements 0 to 2 are the hardware's.
      // FOUR: %[[X:.*]] = math.fma %[[S:.*]], %[[FACTOR]], %[[R]] : f32
      // FOUR-NEXT: math.exp2 %[[X]] : f32
      // FOUR-COUNT-2: math.exp2
      // Element 3 lies in the second row. What the exponent is over the least one, in units of 256 ...
      // FOUR-NEXT: %[[Y:.*]] = llvm.inline_asm "fma.rn.sat.f32 $0, $1, $2, $3;", "=f,f,f,f" %[[S]], %[[SMALL]], %[[O8]] : (f32, f32, f32) -> f32
      // ... rounded to multiples of 1 / 256, and what is left ...
      // FOUR-NEXT: %[[MAGIC:.*]] = arith.constant 49151.5039 : f32
      // FOUR-NEXT: %[[T:.*]] = arith.addf %[[Y]], %[[MAGIC]] : f32
      // FOUR-NEXT: %[[N:.*]] = arith.subf %[[MAGIC]], %[[T]] : f32
      // FOUR-NEXT: %[[F:.*]] = arith.addf %[[Y]], %[[N]] : f32
      // ... of which a polynomial is taken, and the whole part added to its exponent.
      // FOUR-NEXT: %[[C3:.*]] = arith.constant
      // FOUR-NEXT: %[[C2:.*]] = arith.constant
      // FOUR-NEXT: %[[P2:.*]] = math.fma %[[C3]], %[[F]], %[[C2]] : f32
      // FOUR-NEXT: %[[C1:.*]] = arith.constant
      // FOUR-NEXT: %[[P1:.*]] = math.fma %[[P2]], %[[F]], %[[C1]] : f32
      // FOUR-NEXT: %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
      // FOUR-NEXT: %[[P0:.*]] = math.fma %[[P1]], %[[F]], %[[ONE]] : f32
      // FOUR: %[[TBITS:.*]] = arith.bitcast %[[T]] : f32 to i32
      // FOUR: %[[WHOLE:.*]] = arith.shli %[[TBITS]], %c23_i32
      // FOUR: %[[PBITS:.*]] = arith.bitcast %[[P0]] : f32 to i32
      // FOUR: %[[SUM:.*]] = arith.addi %[[PBITS]], %[[WHOLE]] : i32
      // FOUR: arith.bitcast %[[SUM]] : i32 to f32
      // FOUR-COUNT-3: math.exp2
      // FOUR: fma.rn.sat
      // FOUR-COUNT-3: math.exp2
      // FOUR: fma.rn.sat
      // FOUR-COUNT-3: math.exp2
      // FOUR: fma.rn.sat
      // FOUR-NOT: math.exp2

      // Five of sixteen, as evenly as can be.
      // FIVE-COUNT-3: math.exp2
      // FIVE: fma.rn.sat
      // FIVE-COUNT-2: math.exp2
      // FIVE: fma.rn.sat
      // FIVE-COUNT-2: math.exp2
      // FIVE: fma.rn.sat
      // FIVE-COUNT-2: math.exp2
      // FIVE: fma.rn.sat
      // FIVE-COUNT-2: math.exp2
      // FIVE: fma.rn.sat
      // FIVE-NOT: math.exp2

      // ALL-NOT: math.exp2
      // ALL-COUNT-16: fma.rn.sat
      // ALL-NOT: fma.rn.sat

      // TINY-NOT: fma.rn.sat
      // TINY: %[[FACTOR:.*]] = arith.constant 2.500000e-01 : f32
      // TINY: %[[X:.*]] = arith.mulf %[[S:.*]], %[[FACTOR]] : f32
      // TINY-NEXT: math.exp2 %[[X]] : f32
      // TINY: %[[MAGIC:.*]] = arith.constant 0x4B400000 : f32
      // TINY-NEXT: %[[T:.*]] = math.fma %[[S]], %[[FACTOR]], %[[MAGIC]] : f32
      // TINY-NEXT: %[[N:.*]] = arith.subf %[[MAGIC]], %[[T]] : f32
      // TINY-NEXT: %[[F:.*]] = math.fma %[[S]], %[[FACTOR]], %[[N]] : f32
      // TINY-COUNT-3: math.fma %{{.*}}, %[[F]],
      // TINY: %[[BITS:.*]] = arith.bitcast %[[T]] : f32 to i32
      // TINY: arith.shli %[[BITS]], %c23_i32
      // TINY: arith.addi
      // TINY-COUNT-7: math.exp2
      // TINY-NOT: math.exp2
      %p = tile.exp2 %scores, %offset {factor = 0.25 : f32, fma = FMA : i64} : !acc, !row
      tile.store %p, %o[%c0, %c0, %c0] limit %n : !acc, !o
    }
    gpu.return
  }
}
