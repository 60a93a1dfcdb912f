// A function that one plain kernel computes: a thread copies 16 bytes of a key and of its value. Nothing is read before
// it is known to exist, and nothing is written beside.
// RUN: flashc-opt %s --split-input-file --convert-flash-to-tile --canonicalize --cse | FileCheck %s

!new = memref<?x?x8x128xbf16>
!cache = memref<?x16x8x128xbf16>

// CHECK-NOT:   func.func
// CHECK:       gpu.func @paged(%[[T:[^:]*]]: index, %[[POSITIONS:[^:]*]]: memref<?xi32, strided<[1]>>, %[[M:[^:]*]]: index, %[[COUNTS:[^:]*]]: memref<?xi32, strided<[1]>>, %[[TABLE:[^:]*]]: memref<?x?xi32, strided<[?, 1]>>, %[[P:[^:]*]]: index, %[[V:[^:]*]]: memref<?x?x8x128xbf16, {{[^:]*}}>, %[[K:[^:]*]]: memref<?x?x8x128xbf16, {{[^:]*}}>, %[[KCACHE:[^:]*]]: memref<?x16x8x128xbf16, {{[^:]*}}>, %[[VCACHE:[^:]*]]: memref<
// CHECK-SAME:    block = [128, 1, 1]
// CHECK-SAME:    grid = ["mul(arg0.dim0, ceildiv(mul(mul(arg0.dim1, 8), 16), 128))", "1", "1"]
// CHECK-SAME:    {alignment = 16 : i64, argument = 1 : i64, kind = "pointer"}
// CHECK-SAME:    {alignment = 16 : i64, argument = 5 : i64, kind = "pointer"}
// CHECK-SAME:    requires = {{\[}}["arg0.dim0", "arg1.dim0"], ["arg0.dim1", "arg1.dim1"], ["arg0.dim0", "arg2.dim0"], ["arg0.dim0", "arg3.dim0"], ["arg0.dim0", "arg4.dim0"], ["arg5.dim0", "arg6.dim0"]]
// CHECK:         memref.load %[[POSITIONS]]
// CHECK:         %[[PLACES:.*]] = arith.muli %[[M]], %c16
// CHECK:         %[[LIMIT:.*]] = arith.minui %[[PLACES]], %c2147483647
// CHECK:         %[[BEFORE:.*]] = arith.cmpi ult, %[[POSITION:.*]], %[[LIMIT]]
// CHECK:         %[[COUNT:.*]] = memref.load %[[COUNTS]]
// CHECK:         %[[VALID:.*]] = arith.cmpi slt
// CHECK:         %[[EXISTS:.*]] = arith.andi %[[BEFORE]], %[[VALID]]
// CHECK:         scf.if %[[EXISTS]]
// CHECK:           arith.divui %[[POSITION]], %c16
// CHECK:           memref.load %[[TABLE]]
// CHECK:           %[[ISPAGE:.*]] = arith.cmpi ult, %{{.*}}, %[[P]]
// CHECK:           scf.if %[[ISPAGE]]
// CHECK:             %[[ROW:.*]] = arith.remui %[[POSITION]], %c16
// CHECK:             %[[VALUE:.*]] = vector.load %[[V]]{{.*}} vector<8xbf16>
// CHECK:             %[[KEY:.*]] = vector.load %[[K]]{{.*}} vector<8xbf16>
// CHECK:             vector.store %[[KEY]], %[[KCACHE]][%[[PAGE:.*]], %[[ROW]], %{{.*}}, %{{.*}}]
// CHECK:             vector.store %[[VALUE]], %[[VCACHE]][%[[PAGE]], %[[ROW]], %{{.*}}, %{{.*}}]
func.func @paged(%k: !new, %v: !new, %positions: memref<?xi32>, %counts: memref<?xi32>, %table: memref<?x?xi32>,
                 %k_cache: !cache, %v_cache: !cache) {
  flash.append_kv ins(%k, %v, %positions : !new, !new, memref<?xi32>) counts(%counts : memref<?xi32>)
    table(%table : memref<?x?xi32>) outs(%k_cache, %v_cache : !cache, !cache)
  return
}

// -----

// Halves: the partner of a vector is another one. Only half of the columns are rotated, and values have others than keys.
// CHECK:       gpu.func @halves
// CHECK-SAME:    grid = ["mul(2, ceildiv(mul(mul(arg0.dim1, 2), 24), 128))", "1", "1"]
// CHECK:         %[[ISKEY:.*]] = arith.cmpi ult, %[[COLUMN:.*]], %c64
// CHECK:         scf.if %[[ISKEY]]
// CHECK:           %[[KEY:.*]] = vector.load %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, %[[COLUMN]]] {{.*}} vector<8xf16>
// CHECK:           %[[ISROTATED:.*]] = arith.cmpi ult, %[[COLUMN]], %c32
// CHECK:           %[[STORED:.*]] = scf.if %[[ISROTATED]] -> (vector<8xf16>)
// CHECK:             %[[ISFIRST:.*]] = arith.cmpi ult, %[[COLUMN]], %c16
// CHECK:             vector.load {{.*}} vector<8xf16>
// CHECK-COUNT-2:     vector.load {{.*}} vector<8xf32>
// CHECK:             arith.truncf %{{.*}} : vector<8xf32> to vector<8xf16>
// CHECK:           } else {
// CHECK-NEXT:        scf.yield %[[KEY]]
// CHECK:           vector.store %[[STORED]]
// CHECK:         %[[ISVALUE:.*]] = arith.cmpi ult, %[[COLUMN]], %c192
// CHECK:         scf.if %[[ISVALUE]]
func.func @halves(%k: memref<2x?x2x64xf16>, %v: memref<2x?x2x192xf16>, %positions: memref<2xi32>, %cos: memref<99x16xf32>,
                  %sin: memref<99x16xf32>, %k_cache: memref<2x?x2x64xf16>, %v_cache: memref<2x?x2x192xf16>) {
  flash.append_kv ins(%k, %v, %positions : memref<2x?x2x64xf16>, memref<2x?x2x192xf16>, memref<2xi32>)
    rotary(%cos, %sin : memref<99x16xf32>, memref<99x16xf32>)
    outs(%k_cache, %v_cache : memref<2x?x2x64xf16>, memref<2x?x2x192xf16>)
  return
}

// -----

// Neighbours are in one vector. 12 columns are rotated, so that it has four elements.
// CHECK:       gpu.func @neighbours
// CHECK-COUNT-2: vector.load {{.*}} vector<4xbf16>
// CHECK-COUNT-2: vector.load {{.*}} vector<2xbf16>
func.func @neighbours(%k: memref<2x3x2x16xbf16>, %v: memref<2x3x2x16xbf16>, %positions: memref<2xi32>,
                      %cos: memref<99x6xbf16>, %sin: memref<99x6xbf16>, %k_cache: memref<2x9x2x16xbf16>,
                      %v_cache: memref<2x9x2x16xbf16>) {
  flash.append_kv ins(%k, %v, %positions : memref<2x3x2x16xbf16>, memref<2x3x2x16xbf16>, memref<2xi32>)
    rotary(%cos, %sin : memref<99x6xbf16>, memref<99x6xbf16>)
    outs(%k_cache, %v_cache : memref<2x9x2x16xbf16>, memref<2x9x2x16xbf16>) {interleaved}
  return
}

// -----

// Eight numbers of 16 bits become eight bytes, with one scale of the page and the key head; angles are counted from where
// the sequence begins.
// CHECK-LABEL: gpu.func @eight_bits
// CHECK:         %[[FIRST:.*]] = arith.index_cast
// CHECK:         arith.subi
// CHECK:         vector.load {{.*}} vector<8xbf16>
// CHECK:         memref.load %{{.*}}[%[[PAGE:.*]], %[[H:.*]]] : memref<?x8xf32
// CHECK-COUNT-8: arith.divf
// CHECK:         %[[BYTES:.*]] = vector.from_elements {{.*}} : vector<8xi8>
// CHECK:         vector.store %[[BYTES]], %{{.*}}[%[[PAGE]], %{{.*}}, %[[H]], %{{.*}}] : memref<?x16x8x128xi8
func.func @eight_bits(%k: memref<?x?x8x128xbf16>, %v: memref<?x?x8x128xbf16>, %positions: memref<?xi32>,
                      %table: memref<?x?xi32>, %leftpad: memref<?xi32>, %cos: memref<?x64xf32>, %sin: memref<?x64xf32>,
                      %k_scale: memref<?x8xf32>, %v_scale: memref<?x8xf32>, %k_cache: memref<?x16x8x128xf8E4M3FN>,
                      %v_cache: memref<?x16x8x128xf8E4M3FN>) {
  flash.append_kv ins(%k, %v, %positions : memref<?x?x8x128xbf16>, memref<?x?x8x128xbf16>, memref<?xi32>)
    table(%table : memref<?x?xi32>) leftpad(%leftpad : memref<?xi32>)
    rotary(%cos, %sin : memref<?x64xf32>, memref<?x64xf32>) scales(%k_scale, %v_scale : memref<?x8xf32>, memref<?x8xf32>)
    outs(%k_cache, %v_cache : memref<?x16x8x128xf8E4M3FN>, memref<?x16x8x128xf8E4M3FN>)
  return
}

// -----

// Packed tokens: a thread counts the offsets up to its row, and then reads the position of this sequence.
// CHECK:       gpu.func @packed(
// CHECK-SAME:    grid = ["ceildiv(mul(mul(arg0.dim0, 8), 16), 128)", "1", "1"]
// CHECK:         scf.for
// CHECK:           memref.load %[[OFFSETS:.*]][%{{.*}}] : memref<?xi32
// CHECK:         %[[SEQUENCE:.*]] = arith.subi %{{.*}}, %c1
// CHECK:         arith.cmpi ult, %[[SEQUENCE]], %{{.*}}
// CHECK:         memref.load %[[OFFSETS]][%[[SEQUENCE]]]
// CHECK:         memref.load %{{.*}}[%[[SEQUENCE]]]
// CHECK:         vector.load %{{.*}} : memref<?x8x128xbf16, {{.*}}>, vector<8xbf16>
func.func @packed(%k: memref<?x8x128xbf16>, %v: memref<?x8x128xbf16>, %positions: memref<?xi32>, %offsets: memref<?xi32>,
                  %table: memref<?x?xi32>, %k_cache: memref<?x16x8x128xbf16>, %v_cache: memref<?x16x8x128xbf16>) {
  flash.append_kv ins(%k, %v, %positions : memref<?x8x128xbf16>, memref<?x8x128xbf16>, memref<?xi32>)
    offsets(%offsets : memref<?xi32>) table(%table : memref<?x?xi32>)
    outs(%k_cache, %v_cache : memref<?x16x8x128xbf16>, memref<?x16x8x128xbf16>)
  return
}
