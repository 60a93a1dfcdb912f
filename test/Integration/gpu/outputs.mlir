// Outputs that results are materialized in are compared and printed as those of an op on memrefs are.
// REQUIRES: gpu
// RUN: flashc %s --run=gpu --check --function=into_arguments --dims=B=2,Nq=63,Nk=65 | FileCheck %s
// RUN: flashc %s --run=gpu --print-results --function=into_arguments --dims=Nq=1,Nk=3 | FileCheck %s --check-prefix=PRINTED
// RUN: not flashc %s --run=gpu --check --function=in_place 2>&1 | FileCheck %s --check-prefix=SHARED

// CHECK: check @into_arguments: o: max error {{[1-9]}}.{{.*}}: PASS
// CHECK-NEXT: check @into_arguments: lse: max error {{[1-9]}}.{{.*}}: PASS
// PRINTED: run @into_arguments: o: 1x2x1x64xf16 = {{\[\[\[\[}}{{-?[0-9]}}
// PRINTED-NEXT: run @into_arguments: lse: 1x2x1xf32 = {{\[\[\[}}
!m = memref<?x2x?x64xf16>
!t = tensor<?x2x?x64xf16>
!l = tensor<?x2x?xf32>

func.func @into_arguments(%q: !m, %k: !m, %v: !m, %o: !m, %lse: memref<?x2x?xf32>) {
  %0 = bufferization.to_tensor %q restrict : !m to !t
  %1 = bufferization.to_tensor %k restrict : !m to !t
  %2 = bufferization.to_tensor %v restrict : !m to !t
  %3, %4 = flash.attention ins(%0, %1, %2 : !t, !t, !t) {scale = 0.125 : f32} -> !t, !l
  bufferization.materialize_in_destination %3 in restrict writable %o : (!t, !m) -> ()
  bufferization.materialize_in_destination %4 in restrict writable %lse : (!l, memref<?x2x?xf32>) -> ()
  return
}

// SHARED: error: expected the output to be written to an argument that is used for nothing else
func.func @in_place(%q: !m, %k: !t) {
  %0 = bufferization.to_tensor %q restrict : !m to !t
  %o, %lse = flash.attention ins(%0, %k, %k : !t, !t, !t) {scale = 0.125 : f32} -> !t, !l
  bufferization.materialize_in_destination %o in restrict writable %q : (!t, !m) -> ()
  return
}
