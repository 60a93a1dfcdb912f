// The example, from L0: what a consumer warpgroup does.
// RUN: flashc-opt %flashc_src/examples/causal.mlir --flash-online-softmax --flash-tile="q-tile=128 kv-tile=128" --canonicalize --cse --flash-swap-loops --flash-bound-loops --flash-parallelize --canonicalize --cse --convert-flash-to-tile=schedule=consumers=2,kv-tile=128,stages=2,persistent=false --canonicalize --cse | FileCheck %s

// CHECK-NOT:     func.func
// CHECK:         gpu.module @flashc_kernels [#nvvm.target<chip = "sm_90a", features = "+ptx80">] {
// CHECK:         gpu.func @causal(%[[QMAP:[^:]*]]: !tile.tensor_map<64 x bf16>, %[[KMAP:[^:]*]]: !tile.tensor_map<128 x bf16>, %[[VMAP:[^:]*]]: !tile.tensor_map<128 x bf16>,
// CHECK-SAME:        %[[NQ:[^:]*]]: index, %[[NK:[^:]*]]: index,
// CHECK-SAME:        %[[O:[^:]*]]: memref<?x8x?x128xbf16, strided<[?, ?, ?, 1]>>, %[[LSE:[^:]*]]: memref<?x8x?xf32, strided<[?, ?, 1]>>) kernel

// One launch parameter for each kernel parameter, and one more for each stride of a memref.
// CHECK-SAME:    block = [384, 1, 1]
// CHECK-SAME:    grid = ["ceildiv(arg0.dim2, 128)", "8", "arg0.dim0"]
// CHECK-SAME:    parameters = [
// CHECK-SAME:    {argument = 0 : i64, box = [64, 64, 1, 1], kind = "tensor_map", swizzle = 128 : i64},
// CHECK-SAME:    {argument = 1 : i64, box = [64, 128, 1, 1], kind = "tensor_map", swizzle = 128 : i64},
// CHECK-SAME:    {argument = 2 : i64, box = [64, 128, 1, 1], kind = "tensor_map", swizzle = 128 : i64},
// CHECK-SAME:    {argument = 0 : i64, dim = 2 : i64, kind = "extent"}, {argument = 1 : i64, dim = 2 : i64, kind = "extent"},
// CHECK-SAME:    {alignment = 16 : i64, argument = 3 : i64, kind = "pointer"}, {argument = 3 : i64, dim = 0 : i64, kind = "stride"}, {argument = 3 : i64, dim = 1 : i64, kind = "stride"}, {argument = 3 : i64, dim = 2 : i64, kind = "stride"},
// CHECK-SAME:    {argument = 4 : i64, kind = "pointer"}, {argument = 4 : i64, dim = 0 : i64, kind = "stride"}, {argument = 4 : i64, dim = 1 : i64, kind = "stride"}]

// What the kernel takes for granted; numbers of heads are static here.
// CHECK-SAME{LITERAL}: requires = [["arg0.dim0", "arg1.dim0"], ["arg1.dim0", "arg2.dim0"], ["arg1.dim2", "arg2.dim2"], ["arg0.dim0", "arg3.dim0"], ["arg0.dim2", "arg3.dim2"], ["arg0.dim0", "arg4.dim0"], ["arg0.dim2", "arg4.dim2"]]

// CHECK-DAG:     %[[FACTOR:.*]] = arith.constant dense<0.127517432> : tensor<64x128xf32, #tile.acc>
// CHECK-DAG:     %[[ROW_FACTOR:.*]] = arith.constant dense<0.127517432> : tensor<64xf32, #tile.row>
// CHECK-DAG:     %[[STALE:.*]] = arith.constant dense<62.73{{.*}}> : tensor<64xf32, #tile.row>
// CHECK-DAG:     %[[LOWEST:.*]] = arith.constant dense<0xFF800000> : tensor<64xf32, #tile.lane_partial>
// CHECK-DAG:     %[[ONE:.*]] = arith.constant dense<1.000000e+00> : tensor<64xf32, #tile.row>
// CHECK-DAG:     %[[MASKED:.*]] = arith.constant 0xFF800000 : f32
// CHECK-DAG:     %[[FAR_BITS:.*]] = arith.constant dense<1261765875> : tensor<64xi32, #tile.lane_partial>
// CHECK:         %[[QRING:.*]] = tile.alloc_ring : <1, 64, 128, bf16, private true>
// CHECK:         %[[KRING:.*]] = tile.alloc_ring : <2, 128, 128, bf16>
// CHECK:         %[[VRING:.*]] = tile.alloc_ring : <2, 128, 128, bf16>
// CHECK:         tile.program 2 {
// CHECK:         ^bb0(%[[W:.*]]: index):
// CHECK-DAG:       %[[X:.*]] = gpu.block_id x
// CHECK-DAG:       %[[H:.*]] = gpu.block_id y
// CHECK-DAG:       %[[B:.*]] = gpu.block_id z
// The last queries see the most keys: they go first.
// CHECK:           %[[TILES:.*]] = arith.ceildivui %{{.*}}, %c128
// CHECK:           %[[HEAVIEST:.*]] = arith.subi %[[TILES]], %c1
// CHECK:           %[[TILE:.*]] = arith.subi %[[HEAVIEST]], %[[X]]
// CHECK:           %[[FIRST:.*]] = arith.muli %[[TILE]], %c128
// CHECK:           %[[OFFSET:.*]] = arith.muli %[[W]], %c64
// CHECK:           %[[ROW:.*]] = arith.addi %[[FIRST]], %[[OFFSET]]
// CHECK:           %[[SHIFT:.*]] = arith.subi %[[NK]], %[[NQ]]
// CHECK:           %[[COUNT:.*]] = arith.divui %{{.*}}, %c128
// CHECK:           %[[TOTAL:.*]] = arith.maxsi %[[COUNT]], %c1
// CHECK:           %[[LAST:.*]] = arith.subi %[[TOTAL]], %c1
// CHECK:           %[[LAST_KEY:.*]] = arith.muli %[[LAST]], %c128
// CHECK:           %[[FULL:.*]] = arith.divui %{{.*}}, %c128
// CHECK:           %[[MASKED_TILES:.*]] = arith.subi %[[COUNT]], %[[FULL]]
// CHECK:           %[[Q:.*]] = tile.load %[[QMAP]][%[[B]], %[[H]], %[[ROW]]] into %[[QRING]]

// CHECK:           %[[R:.*]]:3 = scf.for %[[U:.*]] = %c0 to %[[TOTAL]] step %c1 iter_args(%[[ACC:.*]] = %{{.*}}, %[[M:.*]] = %{{.*}}, %[[L:.*]] = %{{.*}})
// CHECK:             %[[DISTANCE:.*]] = arith.muli %[[U]], %c128
// CHECK:             %[[KEY:.*]] = arith.subi %[[LAST_KEY]], %[[DISTANCE]]
// CHECK:             %[[K:.*]] = tile.load %[[KMAP]][%[[B]], %[[HK:.*]], %[[KEY]]] into %[[KRING]]
// CHECK:             %[[TS:.*]] = tile.mma_async %[[Q]], %[[K]] transpose_b
// CHECK:             %[[S:.*]] = tile.mma_wait %[[TS]]
// CHECK:             %[[NEEDS:.*]] = tile.outside %[[U]] of[%[[MASKED_TILES]], %[[COUNT]])
// CHECK:             %[[SM:.*]] = scf.if %[[NEEDS]]
// CHECK:               %[[MAP:.*]] = tile.map %[[S]] at(%[[ROW]], %[[KEY]]) {
// CHECK:               ^bb0(%[[E:.*]]: f32, %[[I:.*]]: index, %[[J:.*]]: index):
// CHECK:                 %[[DIAGONAL:.*]] = arith.addi %[[I]], %[[SHIFT]]
// CHECK:                 %[[LAST:.*]] = arith.addi %[[NK]], %c-1
// CHECK:                 %[[NEAREST:.*]] = arith.minsi %[[DIAGONAL]], %[[LAST]]
// CHECK:                 %[[KEEP:.*]] = arith.cmpi sle, %[[J]], %[[NEAREST]]
// CHECK:                 arith.select %[[KEEP]], %[[E]], %[[MASKED]]
// CHECK:               scf.yield %[[MAP]]
// CHECK:             } else {
// CHECK:               scf.yield %[[S]]
// Whether the maximum may have to change: no lane of the warp sees a score above the old one by 8 / (log2(e) scale).
// CHECK:             %[[OFROW:.*]] = arith.addf %[[M]], %[[STALE]]
// CHECK:             %[[LIMIT:.*]] = tile.broadcast %[[OFROW]]
// CHECK:             %[[BITS:.*]] = tile.row_reduce max_of_bits %[[SM]]
// CHECK:             %[[LIMIT_BITS:.*]] = arith.bitcast %[[LIMIT]]
// CHECK:             %[[OTHER:.*]] = arith.cmpi ugt, %[[LIMIT_BITS]], %[[FAR_BITS]]
// CHECK:             %[[LIMIT2:.*]] = arith.select %[[OTHER]], %[[LOWEST]], %[[LIMIT]]
// CHECK:             %[[ABOVE:.*]] = arith.cmpf uge, %[[BITS]], %[[LIMIT2]]
// CHECK:             %[[MAY:.*]] = tile.vote_any %[[ABOVE]]
// CHECK:             %[[NEW:.*]]:5 = scf.if %[[MAY]]
// CHECK:               %[[MX:.*]] = tile.row_reduce max %[[SM]]
// CHECK:               %[[INC:.*]] = arith.subf %[[MX]], %[[M]]
// CHECK:               %[[INC2:.*]] = arith.mulf %[[INC]], %[[ROW_FACTOR]]
// CHECK:               %[[NEED:.*]] = arith.cmpf ogt, %[[INC2]]
// CHECK:               %[[MN:.*]] = arith.select %[[NEED]], %[[MX]], %[[M]]
// CHECK:               %[[DEC:.*]] = arith.negf %[[INC2]]
// CHECK:               %[[DEC2:.*]] = math.exp2 %[[DEC]]
// CHECK:               %[[AL:.*]] = arith.select %[[NEED]], %[[DEC2]], %[[ONE]]
// CHECK:               %[[ANY:.*]] = tile.vote_any %[[NEED]]
// The maximum is far from 0 in a row of the warp, but not infinite: it is taken off every score.
// CHECK:               %[[NEG:.*]] = arith.negf %[[MN]]
// CHECK:               %[[SIZE:.*]] = math.absf %[[NEG]]
// CHECK:               %[[LARGE:.*]] = arith.cmpf ogt, %[[SIZE]]
// CHECK:               %[[FINITE:.*]] = arith.cmpf olt, %[[SIZE]]
// CHECK:               %[[ISFAR:.*]] = arith.andi %[[LARGE]], %[[FINITE]]
// CHECK:               %[[ANYFAR:.*]] = tile.vote_any %[[ISFAR]]
// CHECK:               %[[X:.*]]:2 = scf.if %[[ANYFAR]]
// CHECK:                 %[[BASE:.*]] = arith.select %{{.*}}, %[[ZERO:.*]], %[[MN]]
// CHECK:                 %[[BASEB:.*]] = tile.broadcast %[[BASE]]
// CHECK:                 %[[DIFF:.*]] = arith.subf %[[SM]], %[[BASEB]]
// CHECK:                 scf.yield %[[DIFF]], %[[ZERO]]
// CHECK:               } else {
// A row without keys has a maximum of -inf, of which 0 is taken off.
// CHECK:                 %[[NONE:.*]] = arith.cmpf oeq, %[[MN]]
// CHECK:                 %[[BASE2:.*]] = arith.select %[[NONE]], %[[ZERO]], %[[MN]]
// CHECK:                 %[[NEG2:.*]] = arith.negf %[[BASE2]]
// CHECK:                 %[[OFF:.*]] = arith.mulf %[[NEG2]], %[[ROW_FACTOR]]
// CHECK:                 scf.yield %[[SM]], %[[OFF]]
// CHECK:               scf.yield %[[X]]#0, %[[X]]#1, %[[MN]], %[[AL]], %[[ANY]]
// CHECK:             } else {
// CHECK:               %[[NEG3:.*]] = arith.negf %[[M]]
// CHECK:               %[[OFF2:.*]] = arith.mulf %[[NEG3]], %[[ROW_FACTOR]]
// CHECK:               scf.yield %[[SM]], %[[OFF2]], %[[M]], %[[ONE]], %false
// CHECK:             %[[NEGB:.*]] = tile.broadcast %[[NEW]]#1
// CHECK:             %[[X2:.*]] = math.fma %[[NEW]]#0, %[[FACTOR]], %[[NEGB]]
// CHECK:             %[[P:.*]] = math.exp2 %[[X2]]
// CHECK:             %[[LS:.*]] = tile.row_reduce sum %[[P]]
// CHECK:             %[[LN:.*]] = tile.scale_rows %[[L]], %[[NEW]]#3
// CHECK:             %[[L2:.*]] = arith.addf %[[LN]], %[[LS]]
// CHECK:             %[[PA:.*]] = tile.to_operand_a %[[P]]
// CHECK:             %[[O1:.*]] = scf.if %[[NEW]]#4
// CHECK:               tile.scale_rows %[[ACC]], %[[NEW]]#3
// CHECK:             %[[V:.*]] = tile.load %[[VMAP]][%[[B]], %[[HK]], %[[KEY]]] into %[[VRING]]
// CHECK:             %[[TO:.*]] = tile.mma_async %[[PA]], %[[V]] into %[[O1]]
// CHECK:             %[[O2:.*]] = tile.mma_wait %[[TO]]
// CHECK:             scf.yield %[[O2]], %[[NEW]]#2, %[[L2]]

// CHECK:           %[[SUM:.*]] = tile.combine %[[R]]#2
// CHECK:           %[[INVERSE:.*]] = arith.divf %{{.*}}, %[[SUM]]
// CHECK:           %[[EMPTY:.*]] = arith.cmpf oeq, %[[SUM]]
// CHECK:           %[[SCALE:.*]] = arith.select %[[EMPTY]], %{{.*}}, %[[INVERSE]]
// CHECK:           %[[OUT:.*]] = tile.scale_rows %[[R]]#0, %[[SCALE]]
// CHECK:           %[[SCALED:.*]] = arith.mulf %[[R]]#1
// CHECK:           %[[LOG:.*]] = math.log2 %[[SUM]]
// CHECK:           %[[LSE_OUT:.*]] = math.fma %[[LOG]], %{{.*}}, %[[SCALED]]
// CHECK:           tile.store %[[OUT]], %[[O]][%[[B]], %[[H]], %[[ROW]]] limit %[[NQ]]
// CHECK:           tile.store %[[LSE_OUT]], %[[LSE]][%[[B]], %[[H]], %[[ROW]]] limit %[[NQ]]
