// What --check, --check-each-pass and --print-results compare and print: every output there is, however it is written.
// RUN: flashc %s --check --dims=B=2,Nq=7,Nk=9 | FileCheck %s --implicit-check-not=FAIL
// RUN: flashc %s --check-each-pass --q-tile=4 --kv-tile=4 --dims=B=2,Nq=7,Nk=9 | FileCheck %s --check-prefix=EACH --implicit-check-not=FAIL
// RUN: flashc %s --print-results --function=into_arguments --dims=Nq=1,Nk=3 | FileCheck %s --check-prefix=PRINTED
// PRINTED: run @into_arguments: o: 1x2x1x8xf16 = {{\[\[\[\[}}{{-?[0-9]}}
// PRINTED-NEXT: run @into_arguments: lse: 1x2x1xf32 = {{\[\[\[.*\]$}}
// PRINTED-NOT: {{.}}

// What is asked for together with --check-each-pass is done after the last pass.
// RUN: flashc %s --check-each-pass --check --print-results --function=into_arguments --dims=Nq=1,Nk=3 | FileCheck %s --check-prefix=ALL
// ALL: after flash-parallelize: {{.*}} PASS
// ALL-NEXT: after canonicalize: {{.*}} PASS
// ALL-NEXT: after cse: @into_arguments: o error {{.*}}, lse error {{.*}}, PASS
// ALL-NEXT: run @into_arguments: o: 1x2x1x8xf16 = {{\[}}
// ALL-NEXT: run @into_arguments: lse: 1x2x1xf32 = {{\[}}
// ALL-NEXT: check @into_arguments: o: {{.*}} PASS
// ALL-NEXT: check @into_arguments: lse: {{.*}} PASS

!m = memref<?x2x?x8xf16>
!t = tensor<?x2x?x8xf16>
!l = tensor<?x2x?xf32>

// Results that are materialized: the arguments are called as outputs are, and have their extents.
// EACH: after flash-tile: @into_arguments: o error {{[0-9].*}}, lse error {{.*}}, PASS
// CHECK: check @into_arguments: o: max error {{[1-9]}}.{{.*}} PASS
// CHECK-NEXT: check @into_arguments: lse: max error {{[1-9]}}.{{.*}} PASS
func.func @into_arguments(%q: !m, %k: !m, %v: !m, %o: !m, %lse: memref<?x2x?xf32>) {
  %0 = bufferization.to_tensor %q restrict : !m to !t
  %1 = bufferization.to_tensor %k restrict : !m to !t
  %2 = bufferization.to_tensor %v restrict : !m to !t
  %3, %4 = flash.attention ins(%0, %1, %2 : !t, !t, !t) {scale = 0.5 : f32} -> !t, !l
  bufferization.materialize_in_destination %3 in restrict writable %o : (!t, !m) -> ()
  bufferization.materialize_in_destination %4 in restrict writable %lse : (!l, memref<?x2x?xf32>) -> ()
  return
}

// One of two outputs is written, to the queries: on the CPU all of them are read first.
// EACH: after flash-tile: @in_place: q error {{[0-9].*}}, PASS
// CHECK-NEXT: check @in_place: q: max error {{[1-9]}}.{{.*}} PASS
func.func @in_place(%q: !m, %k: !t) {
  %0 = bufferization.to_tensor %q restrict : !m to !t
  %o, %lse = flash.attention ins(%0, %k, %k : !t, !t, !t) {scale = 0.5 : f32} -> !t, !l
  bufferization.materialize_in_destination %o in restrict writable %q : (!t, !m) -> ()
  return
}

// Through a cast, and as a part of an array of which the rest stays.
// EACH: after flash-tile: @by_views: o error {{[0-9].*}}, all error {{[0-9].*}}, PASS
// CHECK-NEXT: check @by_views: o: max error {{[1-9]}}.{{.*}} PASS
// CHECK-NEXT: check @by_views: all: max error {{[1-9]}}.{{.*}} PASS
func.func @by_views(%q: memref<1x2x7x8xf16>, %o: memref<?x?x?x8xf16>, %all: memref<3x2x7xf32> {flash.name = "all"}) {
  %cast = memref.cast %o : memref<?x?x?x8xf16> to memref<1x2x7x8xf16>
  %lse = memref.subview %all[1, 0, 0] [1, 2, 7] [1, 1, 1] : memref<3x2x7xf32> to memref<1x2x7xf32, strided<[14, 7, 1], offset: 14>>
  flash.attention ins(%q, %q, %q : memref<1x2x7x8xf16>, memref<1x2x7x8xf16>, memref<1x2x7x8xf16>)
      outs(%cast, %lse : memref<1x2x7x8xf16>, memref<1x2x7xf32, strided<[14, 7, 1], offset: 14>>) {scale = 0.5 : f32}
  return
}

// What other ops write, and what other functions do.
// EACH: after flash-tile: @by_others: lse error {{.*}}, o error {{.*}}, copy error {{.*}}, first error {{.*}}, PASS
// CHECK-NEXT: check @by_others: lse: {{.*}} PASS
// CHECK-NEXT: check @by_others: o: {{.*}} PASS
// CHECK-NEXT: check @by_others: copy: {{.*}} PASS
// CHECK-NEXT: check @by_others: first: {{.*}} PASS
// CHECK-NOT: {{.}}
func.func @by_others(%q: memref<1x2x7x8xf32>, %lse: memref<1x2x7xf32> {flash.name = "lse"},
                     %o: memref<1x2x7x8xf32> {flash.name = "o"}, %copy: memref<1x2x7x8xf32> {flash.name = "copy"},
                     %first: memref<f32> {flash.name = "first"}, %read: memref<f32>, %choice: i1) {
  func.call @callee(%q, %o, %lse) : (memref<1x2x7x8xf32>, memref<1x2x7x8xf32>, memref<1x2x7xf32>) -> ()
  %to = arith.select %choice, %copy, %copy : memref<1x2x7x8xf32>
  scf.if %choice {
    memref.copy %o, %to : memref<1x2x7x8xf32> to memref<1x2x7x8xf32>
  }
  %x = memref.load %read[] : memref<f32>
  memref.store %x, %first[] : memref<f32>
  return
}

func.func private @callee(%q: memref<1x2x7x8xf32>, %o: memref<1x2x7x8xf32>, %lse: memref<1x2x7xf32>) {
  flash.attention ins(%q, %q, %q : memref<1x2x7x8xf32>, memref<1x2x7x8xf32>, memref<1x2x7x8xf32>)
      outs(%o, %lse : memref<1x2x7x8xf32>, memref<1x2x7xf32>) {scale = 0.5 : f32}
  return
}
