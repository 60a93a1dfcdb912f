// A sliding window on buffers in [B, N, H, D] order, seen as [B, H, N, D] through strides: no copy is made. Query i sees
// the 100 keys that end at its own position. Key tiles outside the window are never visited.
#bnhd = strided<[?, 128, 256, 1]>
func.func @window(%q: memref<?x2x?x128xbf16, #bnhd>, %k: memref<?x2x?x128xbf16, #bnhd>, %v: memref<?x2x?x128xbf16, #bnhd>,
                  %o: memref<?x2x?x128xbf16, #bnhd>, %lse: memref<?x2x?xf32>) {
  %c100 = arith.constant 100 : index
  flash.attention
      ins(%q, %k, %v : memref<?x2x?x128xbf16, #bnhd>, memref<?x2x?x128xbf16, #bnhd>, memref<?x2x?x128xbf16, #bnhd>)
      outs(%o, %lse : memref<?x2x?x128xbf16, #bnhd>, memref<?x2x?xf32>) {scale = 0.0883883461 : f32}
      mask (%b: index, %h: index, %i: index, %j: index) {
        %first = arith.subi %i, %c100 : index
        %past = arith.cmpi sle, %j, %i : index
        %near = arith.cmpi sgt, %j, %first : index
        %keep = arith.andi %past, %near : i1
        flash.yield %keep : i1
      }
  return
}
